package advise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"retake/internal/recovery/classify"
	"retake/internal/recovery/policy"
)

var observed = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// builtIn is made only once, because New reads all examples.
var builtIn = sync.OnceValues(func() (*classify.Classifier, error) { return classify.New() })

func classifying(t testing.TB) Classifying {
	t.Helper()
	c, err := builtIn()
	if err != nil {
		t.Fatal(err)
	}
	return Classifying{Classifier: c, Now: func() time.Time { return observed }}
}

func classified(t *testing.T, o Classifying, in string) (out string, bad int) {
	t.Helper()
	var b bytes.Buffer
	bad, err := Classify(t.Context(), o, []Source{{Reader: strings.NewReader(in)}}, &b)
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), bad
}

// answers parses every line of an output, which must be JSON objects.
func answers(t *testing.T, out string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(out) {
		var a map[string]any
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%v in %.300q", err, line)
		}
		all = append(all, a)
	}
	return all
}

// fieldCases lists lines of evidence, each with one field of the answer.
var fieldCases = []struct{ in, field, want string }{
	{`{"text":"Claude AI usage limit reached|1795269600"}`, "reason", "quota_exhausted"},
	{`{"text":"Claude AI usage limit reached|1795269600"}`, "class", "rate_limit"},
	{`{"text":"Claude AI usage limit reached|1795269600"}`, "retryable", "false"},
	{`{"text":"Claude AI usage limit reached|1795269600"}`, "retry_after_seconds", "14400"},
	{
		`{"text":"Claude AI usage limit reached|1795269600","at":"2026-11-21T14:59:00+01:00"}`, "retry_after_seconds",
		"60",
	},
	{`{"http_status":429,"headers":{"Retry-After":"30"}}`, "retry_after_seconds", "30"},
	{`{"http_status":429,"headers":{"RETRY-AFTER":30}}`, "retry_after_seconds", "30"},
	{`{"http_status":429,"headers":{"retry-after":["30"]}}`, "retry_after_seconds", "30"},
	{
		`{"http_status":429.0,"headers":{"retry-after":null},"retry_after_seconds":9.816}`, "retry_after_seconds",
		"9.816",
	},
	{`{"http_status":429,"retry_after_seconds":1e300}`, "retry_after_seconds", "2.6784e+06"},
	{`{"http_status":429}`, "reason", "rate_limited"},
	{`{"http_status":429}`, "retryable", "true"},
	{`{"http_status":429}`, "retry_after_seconds", "<nil>"},
	{`{"oom_killed":true,"exit_code":137}`, "reason", "oom_killed"},
	{`{"error_type":"oom_killed","signal":"kill"}`, "rule", "oom"},
	{`{"error_type":"tests_failed"}`, "reason", "tests_failed"},
	{`{"signal":"SEGV"}`, "reason", "agent_crash"},
	{`{"signal":" segv "}`, "rule", "exit.139"},
	{`{"signal":"11"}`, "rule", "exit.139"},
	{`{"signal":11}`, "rule", "exit.139"},
	{`{"signal":"SIG11"}`, "rule", "exit.139"},
	{`{"signal":"SIGIOT"}`, "rule", "exit.134"},
	{`{"signal":0}`, "rule", "none"},
	{`{"signal":""}`, "rule", "none"},
	{`{"signal":"SIG40"}`, "rule", "none"},
	{`{"signal":"SIGRTMIN+6"}`, "rule", "none"},
	{`{"http_status":0}`, "rule", "none"},
	{`{"http_status":429,"retry_after_seconds":1.23456789}`, "retry_after_seconds", "1.235"},
	{`{"http_status":429,"retry_after_seconds":0.0004}`, "retry_after_seconds", "<nil>"},
	{`{"http_status":429,"headers":{"retry-after":["30","60"]}}`, "reason", "rate_limited"},
	{`{"error_type":"a word of one's own"}`, "reason", "unknown"},
	{"\ufeff{\"exit_code\":127}", "reason", "tool_not_found"},
	{`{"exit_code":53,"tool":"/usr/bin/gemini"}`, "reason", "needs_human"},
	{`{"question":"Which of the two formats is meant?"}`, "reason", "needs_human"},
	{`{"exit_code":1,"stage":"VALIDATE"}`, "reason", "tests_failed"},
	{`{"last_stderr_tail":"ENOSPC: no space left on device, write"}`, "reason", "disk_full"},
	{`{"last_stdout_tail":"ENOSPC: no space left on device, write"}`, "reason", "disk_full"},
	{`{"message":"ENOSPC: no space left on device, write"}`, "reason", "disk_full"},
	{`{"text":null,"exit_code":null,"signal":null,"oom_killed":null,"http_status":null,"headers":null,"stage":null,"tool":null,"at":null}`, "reason", "unknown"},
	{`{"text":"","unheard":[{}],"Exit_Code":"one"}`, "reason", "unknown"},
	{`{}`, "reason", "unknown"},
	{
		`{"exit_code":-9223372036854775808,"http_status":100,"at":"9999-12-31T23:59:59Z","headers":{"x":1e300}}`,
		"reason", "unknown",
	},
	{
		"{\"text\":\"\xff\xfe \\u0000 \x1b[3\"}", "error",
		`line 1: not JSON: want {"text": "…"} on one line: invalid character '\x1b' in string literal`,
	},
	{"{\"text\":\"\xff\xfe \\u0000 \\u001b[3\"}", "reason", "unknown"},
}

func TestFieldsOfEvidence(t *testing.T) {
	for _, c := range fieldCases {
		out, _ := classified(t, classifying(t), c.in)
		if got := fmt.Sprint(answers(t, out)[0][c.field]); got != c.want {
			t.Errorf("%s\n  %s: %s, want %s, in %s", c.in, c.field, got, c.want, out)
		}
	}
}

// badLines lists unreadable lines and their answers.
var badLines = []struct{ in, want string }{
	{`{"id":"x1","exit_code":"one"}`, `{"id":"x1","error":"line 1: exit_code: want an integer, got \"one\""}`},
	{
		`{"exit_code":1.5,"id":[1, {"a":"b"}]}`,
		`{"id":[1,{"a":"b"}],"error":"line 1: exit_code: want an integer, got 1.5"}`,
	},
	{
		`{"id":12345678901234567890,"exit_code":1e300}`,
		`{"id":12345678901234567890,"error":"line 1: exit_code: want an integer, got 1e300"}`,
	},
	{
		`{"id":null,"http_status":true}`,
		`{"id":null,"error":"line 1: http_status: want an HTTP status from 100 to 599, got true"}`,
	},
	{`{"oom_killed":0}`, `{"error":"line 1: oom_killed: want true or false, got 0"}`},
	{`{"text":["a"]}`, `{"error":"line 1: text: want a string, got an array"}`},
	{`{"text":7}`, `{"error":"line 1: text: want a string, got 7"}`},
	{`{"signal":"SIGFOO"}`, `{"error":"line 1: signal: want a signal such as \"SIGKILL\" or 9, got \"SIGFOO\""}`},
	{`{"signal":65}`, `{"error":"line 1: signal: want a signal such as \"SIGKILL\" or 9, got 65"}`},
	{`{"signal":-9}`, `{"error":"line 1: signal: want a signal such as \"SIGKILL\" or 9, got -9"}`},
	{`{"signal":true}`, `{"error":"line 1: signal: want a signal such as \"SIGKILL\" or 9, got true"}`},
	{`{"http_status":99}`, `{"error":"line 1: http_status: want an HTTP status from 100 to 599, got 99"}`},
	{`{"http_status":600}`, `{"error":"line 1: http_status: want an HTTP status from 100 to 599, got 600"}`},
	{`{"headers":[]}`, `{"error":"line 1: headers: want an object of header names and values, got an array"}`},
	{
		`{"headers":{"a":{}}}`,
		`{"error":"line 1: headers: want an object of header names and values, got an object"}`,
	},
	{
		`{"headers":{"a":[["b"]]}}`,
		`{"error":"line 1: headers: want an object of header names and values, got an object"}`,
	},
	{
		`{"at":"yesterday"}`,
		`{"error":"line 1: at: want an RFC 3339 time such as \"2026-11-21T10:00:00Z\", got \"yesterday\""}`,
	},
	{
		`{"retry_after_seconds":-1}`,
		`{"error":"line 1: retry_after_seconds: want a non-negative number of seconds, got -1"}`,
	},
	{
		`{"retry_after_seconds":1e400}`,
		`{"error":"line 1: retry_after_seconds: want a non-negative number of seconds, got 1e400"}`,
	},
	{
		`{"retry_after_seconds":"NaN"}`,
		`{"error":"line 1: retry_after_seconds: want a non-negative number of seconds, got \"NaN\""}`,
	},
	{
		`{"stage":"` + strings.Repeat("é", 10) + `","tool":["` + strings.Repeat("é", 30) + `"]}`,
		`{"error":"line 1: tool: want a string, got an array"}`,
	},
	{
		`{"at":"` + strings.Repeat("é", 30) + `"}`,
		`{"error":"line 1: at: want an RFC 3339 time such as \"2026-11-21T10:00:00Z\", got \"` +
			strings.Repeat("é", 19) + `…"}`,
	},
	{
		`{"id":"x1","text":"cut o`,
		`{"id":"x1","error":"line 1: not JSON: want {\"text\": \"…\"} on one line: unexpected end of JSON input"}`,
	},
	{
		`{"id":"x1"} {}`,
		`{"id":"x1","error":"line 1: not JSON: want {\"text\": \"…\"} on one line: invalid character '{' after top-level value"}`,
	},
	{`{"id":"` + "\xff" + `","text":0}`, `{"id":"` + "\ufffd" + `","error":"line 1: text: want a string, got 0"}`},
	{`[]`, `{"error":"line 1: want a JSON object, got an array"}`},
	{`"x"`, `{"error":"line 1: want a JSON object, got a string"}`},
	{`7`, `{"error":"line 1: want a JSON object, got a number"}`},
	{` null`, `{"error":"line 1: want a JSON object, got null"}`},
	{`true`, `{"error":"line 1: want a JSON object, got a boolean"}`},
	{
		"\x00",
		`{"error":"line 1: not JSON: want {\"text\": \"…\"} on one line: invalid character '\\x00' looking for beginning of value"}`,
	},
	{
		"text",
		`{"error":"line 1: not JSON: want {\"text\": \"…\"} on one line: invalid character 'e' in literal true (expecting 'r')"}`,
	},
}

func TestBadLinesSayWhatIsWanted(t *testing.T) {
	for _, c := range badLines {
		out, bad := classified(t, classifying(t), c.in+"\n{}\n")
		got, next, _ := strings.Cut(out, "\n")
		if got != c.want || bad != 1 {
			t.Errorf("%q\n  got  %s\n  want %s", c.in, got, c.want)
		}
		if !strings.Contains(next, `"reason":"unknown"`) {
			t.Errorf("%q: the stream does not continue: %q", c.in, next)
		}
	}
}

func TestWholeTexts(t *testing.T) {
	o := classifying(t)
	one := 1
	var out bytes.Buffer
	long := strings.Repeat("reading\n", MaxLine/4) + "ENOSPC: no space left on device, write\n"
	err := ClassifyText(t.Context(), o, Text{ExitCode: &one, Stage: "VALIDATE"}, []Source{
		{Name: "a", Reader: strings.NewReader("API Error: 529 Overloaded\n{\n\xff")},
		{Name: "b", Reader: strings.NewReader("")},
		{Reader: strings.NewReader(long)},
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range answers(t, out.String()) {
		got = append(got, fmt.Sprint(a["id"], " ", a["reason"]))
	}
	if want := "a overloaded, b tests_failed, <nil> disk_full"; strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", strings.Join(got, ", "), want)
	}
	failing := []Source{{Reader: iotest.ErrReader(io.ErrUnexpectedEOF)}}
	if err := ClassifyText(t.Context(), o, Text{}, failing, io.Discard); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a text that cannot be read: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r, w := io.Pipe()
	defer w.Close()
	if err := ClassifyText(ended, o, Text{}, []Source{{Reader: r}}, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("a text that never ends: %v", err)
	}
	o.As = []string{"ggd"}
	if err := ClassifyText(t.Context(), o, Text{}, nil, io.Discard); err == nil {
		t.Error("an unknown preset was accepted")
	}
}

func TestIDIsCopiedWhateverItIs(t *testing.T) {
	for _, id := range []string{
		`"x1"`, `7`, `-0.0`, `12345678901234567890`, `1e999`, `null`, `true`,
		`["a",{"b":null}]`, `{"b":1,"a":2}`, `"\u0000\ud800 <&>"`,
	} {
		out, _ := classified(t, classifying(t), `{"id":`+id+`}`)
		if want := `{"id":` + id + `,"reason":"unknown"`; !strings.HasPrefix(out, want) {
			t.Errorf("id %s: got %.80s", id, out)
		}
	}
	if out, _ := classified(t, classifying(t), `{}`); !strings.HasPrefix(out, `{"reason":"unknown"`) {
		t.Errorf("no id: got %.80s", out)
	}
}

func TestPresetsSpeakTheirOwnWords(t *testing.T) {
	o := classifying(t)
	o.As = []string{"gdd", "cortex", "dispatch", "prp", "reviewcat", "director"}
	out, _ := classified(t, o, `{"text":"Claude AI usage limit reached|1795269600"}`)
	as, _ := answers(t, out)[0]["as"].(map[string]any)
	for _, want := range [][2]string{{"gdd", "rate_limited"}, {"director", "quota_exhausted"}} {
		if as[want[0]] != want[1] {
			t.Errorf("as %s: %v, want %s", want[0], as[want[0]], want[1])
		}
	}
	if len(as) != len(o.As) {
		t.Errorf("as %v, want one of each of %v", as, o.As)
	}
	o.As = []string{"gdd", "ggd"}
	if _, err := Classify(t.Context(), o, nil, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "--as ggd: want one or more of director, reviewcat") {
		t.Errorf("an unknown preset: %v", err)
	}
}

// TestMemoryDoesNotGrowWithTheStream reads 20,000 lines and measures the memory in use during this time.
func TestMemoryDoesNotGrowWithTheStream(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const lines = 20_000
	runtime.GC() // exclude garbage of other tests
	in := &generated{left: lines}
	began := time.Now()
	var out counter
	if bad, err := Classify(t.Context(), classifying(t), []Source{{Reader: in}}, &out); bad != 0 || err != nil {
		t.Fatal(bad, err)
	}
	if out.lines != lines {
		t.Errorf("%d answers to %d lines", out.lines, lines)
	}
	t.Logf("%.0f lines/s on %d cores, at most %d MiB in use", lines/time.Since(began).Seconds(), runtime.GOMAXPROCS(0),
		out.most>>20)
	if out.most > 28<<20 { // 24 MiB are usual, mostly the rules; the stream and its answers have another 12
		t.Errorf("%d MiB in use, want at most 28", out.most>>20)
	}
}

// generated is a stream of lines of 150 to 200 bytes.
type generated struct {
	left int
	rest []byte
}

func (g *generated) Read(p []byte) (int, error) {
	if len(g.rest) == 0 {
		if g.left == 0 {
			return 0, io.EOF
		}
		g.left--
		g.rest = fmt.Appendf(nil,
			`{"id":%d,"stage":"CODE","exit_code":1,"text":"%sAPI Error: 529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}"}`+"\n",
			g.left, strings.Repeat(`reading src/parser.go\n`, g.left%3))
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}

// counter counts lines, and sometimes measures the memory in use.
type counter struct {
	lines, writes int
	most          uint64
}

func (c *counter) Write(p []byte) (int, error) {
	c.lines += bytes.Count(p, []byte("\n"))
	if c.writes++; c.writes%100 == 0 {
		runtime.GC() // count live memory only
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		c.most = max(c.most, m.HeapAlloc)
	}
	return len(p), nil
}

func FuzzClassifyLine(f *testing.F) {
	for _, s := range []string{
		`{"id":1,"text":"a"}`, `{"headers":{"a":[1,null]}}`, `[`, `{"id":"x1","at":`, "\x00",
		`{"exit_code":1e5}`,
	} {
		f.Add([]byte(s))
	}
	o := classifying(f)
	o.As = policy.Presets
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(bytes.TrimSpace(data)) == 0 || bytes.ContainsRune(data, '\n') {
			return
		}
		var out bytes.Buffer
		if _, err := stream(t.Context(), []Source{{Reader: bytes.NewReader(data)}}, &out, o.answer); err != nil {
			t.Fatal(err)
		}
		var a map[string]any
		if err := json.Unmarshal(out.Bytes(), &a); err != nil {
			t.Fatalf("%v in %q", err, out.String())
		}
		if a["reason"] == nil && a["error"] == nil {
			t.Fatalf("the answer lacks a reason and an error: %q", out.String())
		}
	})
}
