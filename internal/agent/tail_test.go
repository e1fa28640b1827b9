package agent

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReadTail checks that event lines of any format are excluded from the text, and that their errors are read.
func TestReadTail(t *testing.T) {
	const (
		quote = `{"type":"user","message":{"content":"HTTP 401 Unauthorized"}}`
		fail  = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	)
	for _, tc := range []struct {
		name, text string
		lines      []string
		message    string
	}{
		{"words", "make: *** no rule\n", []string{"make: *** no rule", ""}, ""},
		{"events", "a\n" + quote + "\n" + fail + "\nb", []string{"a", "", "", "b"}, "Overloaded"},
		{"a server-sent event", "data: " + fail, []string{""}, "Overloaded"},
		{"the rest of an event before the first", quote[30:] + "\n" + quote, []string{"", ""}, ""},
		{"half an event at the end", quote + "\n" + quote[:20], []string{"", ""}, ""},
		{
			"a logger's line", `{"level":"error","type":"app","msg":"x"}`,
			[]string{`{"level":"error","type":"app","msg":"x"}`},
			"",
		},
		{"words behind an object", `{"type":"x"}gh: HTTP 401`, []string{`{"type":"x"}gh: HTTP 401`}, ""},
		{
			"an error over several lines", "x\n  {\n    \"error\": {\"message\": \"boom\"}\n  }",
			[]string{"x", "  {", "    \"error\": {\"message\": \"boom\"}", "  }"},
			"boom",
		},
		{
			"codex between two tries", `{"type":"error","message":"Reconnecting... 1/5 (429 slow down)"}`,
			[]string{""},
			"429 slow down",
		},
		{"a success takes errors back", fail + "\n" + `{"type":"turn.completed"}`, []string{"", ""}, ""},
	} {
		var o Outcome
		tail := readTail(tc.text, &o)
		message := ""
		if f := o.FinalFailure(); f != nil {
			message = f.Message
		}
		if !slices.Equal(tail.Lines, tc.lines) || message != tc.message {
			t.Errorf("%s: %q, failure %q, want %q, %q", tc.name, tail.Lines, message, tc.lines, tc.message)
		}
	}
}

// TestTailWaits ignores an agent's own short backoff and quoted text when it searches for a provider's wait.
func TestTailWaits(t *testing.T) {
	retry := func(ms string) string {
		return `{"type":"system","subtype":"api_retry","retry_delay_ms":` + ms + `,"error":"rate_limit"}`
	}
	tail := readTail(retry("1200")+"\n"+retry("57000")+"\n"+`{"type":"user","message":"try again in 7 hours"}`,
		&Outcome{})
	if want := "\n" + retry("57000") + "\n"; tail.Waits != want || !strings.Contains(tail.Lines[0], "1200") {
		t.Errorf("%q, want %q; %q", tail.Waits, want, tail.Lines)
	}
	var o Outcome
	readTail(`{"error":{"message":"quota","details":[{"retryDelay":"31s"},{"violations":[{"quotaId":"PerDay"}]}]}}`, &o)
	if f := o.FinalFailure(); f == nil || f.Details != "\nPlease retry in 31s\nPerDay" ||
		waitIn(f.Details) != 31*time.Second {
		t.Errorf("%+v", f)
	}
}

func readTail(text string, o *Outcome) Tail { return ReadTail(text, strings.Split(text, "\n"), o) }
