package agent

import (
	"strings"
	"testing"
)

// TestStripQuotes checks that quoted text is removed, and that the agent's own statements stay.
func TestStripQuotes(t *testing.T) {
	const quoted = `{"type":"user","message":{"content":[{"type":"tool_result","content":"error: rate limit 429"}]}}`
	const last = `{"type":"result","is_error":true,"api_error_status":401,"result":"Invalid API key"}`
	got := StripQuotes("claude", `…[100 bytes cut]…content":"ENOSPC"}`+"\nTypeError: x\n"+quoted+"\n"+last+"\n"+
		`{"type":"assistant","message":{"con`, "…[100 bytes cut]…")
	want := "…[100 bytes cut]…\nTypeError: x\n" + `{"type":"user","…":"…"}` + "\n" + last + "\n" + `{"type":"","…":"…"}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, whole := range []string{
		"", "{\n  \"a\": 1\n}", `{"status":"error","message":"429 x"}`,
		"plain words about 429",
	} {
		if got := StripQuotes("continue", whole, ""); got != whole {
			t.Errorf("%q became %q", whole, got)
		}
	}
	if got := StripQuotes("text", quoted, ""); got != quoted {
		t.Error(got)
	}
}

// TestStripQuotesKeepsTheOutcome checks that every recorded stream has the same outcome after stripping.
func TestStripQuotesKeepsTheOutcome(t *testing.T) {
	for _, r := range recordings(t) {
		p, err := Builtin().Lookup(r.profile)
		if err != nil {
			t.Fatal(err)
		}
		_, before := r.replay(t, 1<<20)
		r.stdout, r.stderr = StripQuotes(p.Format, r.stdout, ""), StripQuotes(p.Format, r.stderr, "")
		_, after := r.replay(t, 1<<20)
		b, a := before.FinalFailure(), after.FinalFailure()
		if before.OK != after.OK || (b == nil) != (a == nil) || b != nil &&
			(b.Message != a.Message || b.Status != a.Status) {
			t.Errorf("%s: %+v became %+v", r.file, b, a)
		}
		if strings.Contains(r.stdout, "in the test's name") || strings.Contains(r.stdout, "TestRetry429") {
			t.Errorf("%s: a tool's output is left:\n%s", r.file, r.stdout)
		}
	}
}
