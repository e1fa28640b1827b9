package agent

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"retake/internal/recovery/plaintext"
	"retake/internal/testfiles"
)

// sameWhenDecoded reports whether isQuote accepts a line, and fails the test if decoding that line yields
// more than a quote.
func sameWhenDecoded(t *testing.T, line string) (quote bool) {
	line = strings.TrimSpace(line)
	if !isQuote(line) {
		return false
	}
	r := &Reader{format: &format{object: unknown}}
	if events, role := r.Write([]byte(line+"\n")), r.roleOf(line, false); len(events) > 0 || len(r.state.roles) == 0 ||
		role != quoteRole {
		t.Errorf("%q: %d events, role %d", line, len(events), role)
	}
	return true
}

// TestQuotesAreQuotes checks that undecoded lines do not carry information, in the corpora and in events with a few
// changed bytes.
func TestQuotesAreQuotes(t *testing.T) {
	for _, l := range testfiles.Corpus(t) {
		for line := range strings.SplitSeq(plaintext.Clean(l.Text), "\n") {
			sameWhenDecoded(t, line)
		}
	}
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 1))
	one := func(of ...string) string { return of[rnd.IntN(len(of))] }
	const bytes = "\\\"{}[]:,0189.eE-+unftrl \t\x00\x1f\x7f\xff<>/"
	quotes := 0
	for range 100_000 {
		line := randomObject(rnd, one, 0)
		for range max(0, rnd.IntN(5)-2) {
			at := rnd.IntN(len(line))
			line = line[:at] + one(string(bytes[rnd.IntN(len(bytes))]), "",
				one(`\u0041`, `\n`, `\"`, `\x`, `\u00`, "\\")) + line[at+rnd.IntN(min(2, len(line)-at)):]
		}
		if sameWhenDecoded(t, line) {
			quotes++
		}
		if t.Failed() {
			return
		}
	}
	if quotes < 3000 {
		t.Errorf("only %d of 100000 events are quotes, too few for a meaningful test", quotes)
	}
}

// randomObject returns an event with mostly typical fields.
func randomObject(rnd *rand.Rand, one func(...string) string, depth int) string {
	var fields []string
	if depth == 0 && rnd.IntN(12) > 0 {
		fields = append(fields, `"type":"`+one("assistant", "user", "item.completed", "tool_use", "stream_event", "x",
			"error", "turn.failed", "api_retry", "rate_limit", "result", "turn.completed", "test", "Upper")+`"`)
	}
	for n := rnd.IntN(4); n > 0; n-- {
		key := one("message", "content", "id", "event", "status", "subtype", "x")
		if rnd.IntN(6) == 0 {
			key = one("type", "error", "errorMessage", "finalError", "is_error", "object", "finishReason", "result",
				"permission_denials", "level", "@level", "log.level", "lvl", "levelname", "severity", "test", "testID",
				`ty\u0070e`, "retry_delay_ms")
		}
		value := one("1", "-0.5", "null", "true", "false", `""`, `"x"`, `"a\nb"`, `"a\"b\\"`, "[]", "{}",
			`[{"type":"x"},1]`, `"error"`)
		switch rnd.IntN(10) {
		case 0:
			value = one("01", "1e400", "1E5", strings.Repeat("9", 320), "nul", `[{"a":1}`, `{"errorMessage":"x"}`,
				"[[[[1]]]]", `"a.error"`, `"api_retry"`, `"success"`)
		case 1, 2, 3:
			if depth < 3 {
				value = randomObject(rnd, one, depth+1)
			}
		}
		fields = append(fields, fmt.Sprintf(`"%s"%s:%s%s`, key, one("", " "), one("", " "), value))
	}
	return "{" + strings.Join(fields, one(",", ", ")) + "}"
}

// TestUsualEventsAreQuotes checks that frequent events are recognised without decoding.
func TestUsualEventsAreQuotes(t *testing.T) {
	for _, line := range []string{
		`{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"a \"quoted\" word\n"}],"usage":{"input_tokens":4}},"session_id":"s"}`,
		`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"x","is_error":true}]}}`,
		`{"type":"item.completed","item":{"type":"command_execution","status":"failed","exit_code":1}}`,
		`{"type":"tool_result","status":"success","output":"x"}`,
		`{"type":"stream_event","event":{"type":"content_block_delta","delta":{"text":"x"}}}`,
		`{"type":"system","subtype":"init","model":"x","tools":[]}`,
	} {
		if !isQuote(line) {
			t.Errorf("%s is decoded", line)
		}
	}
}
