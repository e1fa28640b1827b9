package recoverytest

import (
	"fmt"
	"strings"
)

// Kind describes one type of output that failed runs typically produce.
type Kind struct {
	Name string
	line func(int) string // returns line n of the output before its end
	end  string
}

// Tail returns the last n bytes of such an output.
func (k *Kind) Tail(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(k.line(i))
	}
	text := b.String() + k.end
	return text[len(text)-n:]
}

// Adverse is the name of an artificial output that contains many rules' literals but matches none of these rules.
const Adverse = "texts near many rules, none of which applies"

// Kinds lists typical outputs of programs.
var Kinds = []Kind{
	{
		"go test that fails",
		func(i int) string {
			return rotate(i,
				fmt.Sprintf("=== RUN   TestStore/keeps_%d_entries\n", i),
				fmt.Sprintf("    store_test.go:%d: wrote %d entries in %d.%02dms\n", 31+i%40, 128+i, i%9, i%100),
				fmt.Sprintf("--- PASS: TestStore/keeps_%d_entries (0.%02ds)\n", i, i%100),
				fmt.Sprintf("=== PAUSE TestServe/path_%d\n=== CONT  TestServe/path_%d\n", i, i),
				fmt.Sprintf("2026/11/22 02:%02d:%02d listening on 127.0.0.1:%d\n", i/60%60, i%60, 40000+i),
				fmt.Sprintf("ok  \tretake/internal/store%d\t%d.%03ds\n", i%7, i%5, i%1000),
			)
		},
		"=== RUN   TestWidth\n    widget_test.go:31: width of \"日本\" is 6, want 4\n--- FAIL: TestWidth (0.00s)\n" +
			"FAIL\nFAIL\tretake/internal/widget\t0.412s\nFAIL\n",
	},
	{
		"npm test",
		func(i int) string {
			return rotate(i,
				fmt.Sprintf("PASS src/components/__tests__/Card%d.test.tsx (%d.%03d s)\n", i, i%4, i%1000),
				fmt.Sprintf("    ✓ renders the title of card %d (%d ms)\n", i, i%50),
				fmt.Sprintf("npm warn deprecated inflight@1.0.%d: This module is not supported, and leaks memory. Do "+
					"not use it.\n", i%10),
				fmt.Sprintf("  console.log\n    fetched /api/items?page=%d\n\n      at fetchPage "+
					"(src/api/client.ts:%d:13)\n\n", i, 20+i%60),
				fmt.Sprintf("    ✓ shows %d rows after the filter was changed (%d ms)\n", i%30, i%90),
			)
		},
		"FAIL src/lib/width.test.ts\n  ● width › counts wide characters\n\n    expect(received).toBe(expected) // " +
			"Object.is equality\n\n    Expected: 4\n    Received: 6\n\n      29 |   it('counts wide characters', () " +
			"=> {\n    > 31 |     expect(width('日本')).toBe(4);\n         |                         ^\n\n      at " +
			"Object.<anonymous> (src/lib/width.test.ts:31:25)\n\nTest Suites: 1 failed, 41 passed, 42 total\n" +
			"Tests:       1 failed, 317 passed, 318 total\nSnapshots:   0 total\nTime:        12.31 s\nnpm error " +
			"Lifecycle script `test` failed with error:\nnpm error code 1\n",
	},
	{
		"pytest",
		func(i int) string {
			return rotate(i,
				fmt.Sprintf("tests/test_store.py::test_entries[%d] PASSED%s[%3d%%]\n", i, strings.Repeat(" ", 20),
					i%100),
				fmt.Sprintf("tests/test_parse.py::TestHeader::test_line_%d PASSED%s[%3d%%]\n", i,
					strings.Repeat(" ", 14), i%100),
				fmt.Sprintf("INFO     app.store:store.py:%d opened /tmp/pytest-of-ann/pytest-%d/store.db\n", 10+i%200,
					i),
				fmt.Sprintf("DEBUG    urllib3.connectionpool:connectionpool.py:%d http://localhost:%d \"GET "+
					"/items?page=%d HTTP/1.1\" 200 512\n", 400+i%99, 40000+i, i),
			)
		},
		"=================================== FAILURES ===================================\n" +
			"__________________________________ test_width __________________________________\n\n    def " +
			"test_width():\n>       assert width(\"日本\") == 4\nE       AssertionError: assert 6 == 4\nE        +  " +
			"where 6 = width('日本')\n\ntests/test_width.py:31: AssertionError\n=========================== short test " +
			"summary info ============================\nFAILED tests/test_width.py::test_width - AssertionError: " +
			"assert 6 == 4\n======================== 1 failed, 317 passed in 12.31s ========================\n",
	},
	{
		"events of claude-code",
		func(i int) string {
			id := fmt.Sprintf("msg_01Hq%08dXk2vQbM3s", i)
			return rotate(i,
				fmt.Sprintf(
					`{"type":"assistant","message":{"id":"%s","type":"message","role":"assistant","model":"claude-sonnet-4","content":[{"type":"text","text":"I'll look at how widget_%d.go computes the width, and run its tests."}],"stop_reason":null,"usage":{"input_tokens":4,"cache_read_input_tokens":%d,"output_tokens":31}},"parent_tool_use_id":null,"session_id":"3f2504e0-4f89-11d3-9a0c-0305e82c3301"}`+"\n", id, i, 18000+i),
				fmt.Sprintf(
					`{"type":"assistant","message":{"id":"%s","type":"message","role":"assistant","model":"claude-sonnet-4","content":[{"type":"tool_use","id":"toolu_01%08d","name":"Bash","input":{"command":"go test ./internal/widget%d/... 2>&1 | tail -20","description":"Run the tests"}}],"stop_reason":null,"usage":{"input_tokens":4,"output_tokens":112}},"parent_tool_use_id":null,"session_id":"3f2504e0-4f89-11d3-9a0c-0305e82c3301"}`+"\n", id, i, i),
				fmt.Sprintf(
					`{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_01%08d","type":"tool_result","content":"--- FAIL: TestWidth (0.00s)\n    widget_test.go:%d: width of \"x\" is 6, want 4\nFAIL\nFAIL\tretake/internal/widget\t0.412s\nerror: 429 is asserted here","is_error":true}]},"parent_tool_use_id":null,"session_id":"3f2504e0-4f89-11d3-9a0c-0305e82c3301"}`+"\n", i, 31+i),
			)
		},
		`{"type":"result","subtype":"success","is_error":true,"duration_ms":812345,"num_turns":31,"result":"API Error: 429 {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"This request would exceed your organization's rate limit. Please try again in 90 seconds.\"}}","session_id":"3f2504e0-4f89-11d3-9a0c-0305e82c3301","total_cost_usd":1.25}` + "\n",
	},
	{
		"words, and a provider's error",
		func(i int) string {
			return rotate(i,
				fmt.Sprintf("I read internal/widget/width_%d.go and its tests. The function counts runes, "+
					"not columns.\n", i),
				fmt.Sprintf("  $ sed -n %d,%dp internal/widget/width.go\n", i, i+40),
				"func Width(s string) int {\n\treturn utf8.RuneCountInString(s)\n}\n\n",
				fmt.Sprintf("Next I change line %d, so that wide characters count twice, and add a table of cases.\n",
					i),
				fmt.Sprintf("● Update(internal/widget/width_%d.go)\n  ⎿  Updated with %d additions and %d removals\n",
					i, i%9, i%4),
			)
		},
		"● API Error: 529 " +
			"{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}," +
			"\"request_id\":\"req_011CZ8Xk2vQbM3s9tYw4nR7p\"}\n",
	},
	{
		"a build's log with times",
		func(i int) string {
			at := fmt.Sprintf("2026-11-22T02:%02d:%02d.%03dZ", i/60%60, i%60, i%1000)
			return rotate(i,
				fmt.Sprintf("%s INFO  builder: step %d of 400 is done\n", at, i),
				fmt.Sprintf("%s DEBUG cache: key sha256:%064x is not cached yet\n", at, i),
				fmt.Sprintf("%s INFO  builder: copied %d files into layer %d\n", at, i*3, i%40),
				fmt.Sprintf("%s WARN  fetcher: mirror %d answers slowly, trying another mirror\n", at, i%5),
			)
		},
		"2026-11-22T02:59:59.120Z ERROR builder: cannot write layer 17: write /var/lib/build/layer.tar: no space " +
			"left on device\n",
	},
	{
		"no line matches a rule",
		func(i int) string {
			return rotate(i,
				fmt.Sprintf("Item %d was moved from shelf %d to shelf %d, and its label was printed again.\n", i, i%31,
					i%17),
				fmt.Sprintf("    %d | %d | %d | some more figures of this part\n", i, i*7, i*31),
				fmt.Sprintf("step %d: %d blocks, %d of them new, in %d ms\n", i, i%700, i%70, i%9000),
				fmt.Sprintf("Shelf %d now has room for %d further items (see page %d of the list)\n", i%31, i%12, i%90),
			)
		},
		"The shelf has collapsed.\n",
	},
	{
		Adverse,
		func(i int) string {
			return rotate(i,
				fmt.Sprintf("the error page of config %d names a certificate, a connection and an http status, all "+
					"of them made up\n", i),
				fmt.Sprintf("tests of the model and its tokens: case %d of the problem list, with an odd file in "+
					"x%d.go: and y.c: fine\n", i, i),
				fmt.Sprintf("reset the counter before retry %d, wait until it is available, and note the text of "+
					"the request\n", i),
				fmt.Sprintf("about permission model %d: memory, disk and network are unchanged, while the "+
					"key is in use\n", i),
			)
		},
		"The shelf has collapsed.\n",
	},
}

func rotate(i int, lines ...string) string { return lines[i%len(lines)] }
