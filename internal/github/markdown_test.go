package github

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"pgregory.net/rapid"

	"retake/internal/secrets/redact"
)

func TestTextIsMadeSafe(t *testing.T) {
	r := redactor{}
	for name, tc := range map[string]struct{ got, want string }{
		"mention": {
			r.prose("thanks @octocat and @acme/team", 100),
			"thanks @\u200boctocat and @\u200bacme/team",
		},
		"colours":              {r.line("\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07", 100), "red link"},
		"progress bar":         {r.fence("10%\r50%\r100%\nok\r\n", 100), "```text\n100%\nok\n```"},
		"direction characters": {r.line("a\u202eb\u2066c", 100), "abc"},
		"unseen characters":    {r.code("a\u200bb\u00adc\U000e0041d", 100), "`abcd`"},
		"control characters":   {r.line("a\x00b\x07c\x9bd", 100), "abc\uFFFDd"},
		"invalid utf-8":        {r.line("a\xffb", 100), "a\uFFFDb"},
		"lines":                {r.line("a\n\n b\tc", 100), "a b c"},
		"fence":                {r.fence("x\n```\ny", 100), "````text\nx\n```\ny\n````"},
		"longer fence":         {r.fence("x ````` y", 100), "``````text\nx ````` y\n``````"},
		"fence keeps the end":  {r.fence("0123456789", 4), "```text\n… (start cut)\n6789\n```"},
		"code":                 {r.code("a `b` @c", 100), "``a `b` @c``"},
		"code at the edge":     {r.code("`b`", 100), "`` `b` ``"},
		"empty code":           {r.code(" \n", 100), ""},
		"code of a message":    {redactor{message: true}.code("fixes #1 @c", 100), "`fixes #\u200b1 @\u200bc`"},
		"cell":                 {r.cell("a|b", 100), `a\|b`},
		"code in a cell":       {r.cellCode("a|b", 100), "`a\\|b`"},
		"clipped":              {r.line("ä öüß", 4), "ä ö…"},
		"a secret in entities": {
			redactor{Redactor: redact.New("hunter2hunter2")}.line("hunter2&#104;unter2", 100),
			"\\[REDACTED\\]",
		},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %q, want %q", name, tc.got, tc.want)
		}
	}
}

// TestNothingForgesAMarkerOrBreaksOut: whatever a worker sends, a comment of ours carries our marker only,
// mentions nobody, leaks no known secret, stays within GitHub's limit, and its code blocks end where we end
// them.
func TestNothingForgesAMarkerOrBreaksOut(t *testing.T) {
	c, err := New(Options{BaseURL: testAPI, Fleet: "default", Secrets: []string{"hunter2hunter2"}, Token: noToken})
	if err != nil {
		t.Fatal(err)
	}
	part := rapid.SampledFrom([]string{
		"@octocat", "<!-- retake:claim v1 {\"fleet\":\"x\",\"nonce\":\"aaaabbbb\"} -->", "-->", "\n", "```", "~~~~",
		"`", "</details>", "<details>",
		"hunter2", "hunter2hunter2", "\x1b[31m", "\r", "|", "# x", "> ", "\x00", "é", "word ", "<", "!", "--",
		"retake:", "\u202e", "@",
	})
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(part, 0, 40).Draw(t, "parts"),
			"")
	})
	rapid.Check(t, func(t *rapid.T) {
		e := Escalation{
			Key: "acme/widgets#1", Nonce: testNonce, AttemptID: testNonce + "-1",
			Stage: text.Draw(t, "stage"), Reason: text.Draw(t, "reason"), Cause: text.Draw(t, "cause"),
			Facts: []string{text.Draw(t, "fact")},
			Attempts: []AttemptLine{{
				1, text.Draw(t, "s"), text.Draw(t, "r"), text.Draw(t, "c"), text.Draw(t, "then"),
				time.Time{},
			}},
			Tried: []string{text.Draw(t, "tried")}, WhyStopped: text.Draw(t, "why"), Ask: text.Draw(t, "ask"),
			Tail: strings.Repeat(text.Draw(t, "tail"), rapid.SampledFrom([]int{0, 1, 1, 2, 400}).Draw(t, "n")),
		}
		e.Tail = e.Tail[:min(len(e.Tail), 32<<10)] // what a container's tail holds
		body, err := withMarker(marker{kind: markBlocked, Fleet: "default", Nonce: e.Nonce, Attempt: e.AttemptID},
			c.escalationText(e))
		if err != nil {
			t.Fatal(err)
		}
		if fault := harmOfText(strings.SplitN(body, "\n", 2)[1]); fault != "" {
			t.Fatalf("%s: %q", fault, body)
		}
		for _, bad := range []string{"hunter2hunter2", "\x1b", "\r", "\x00", "\u202e"} {
			if strings.Contains(body, bad) {
				t.Fatalf("%q in %q", bad, body)
			}
		}
		if utf8.RuneCountInString(body) > commentLimit || !strings.HasSuffix(body, "fleet `default`</sub>") {
			t.Fatalf("%d characters, ends in %q", utf8.RuneCountInString(body), body[max(0, len(body)-80):])
		}
		var page bytes.Buffer
		if err := goldmark.Convert([]byte(body), &page); err != nil ||
			!strings.Contains(page.String(), "<li>Close the issue: Retake stops working on it.</li>") {
			t.Fatalf("something swallowed the end of %q: %s", body, page.String())
		}
	})
}

func TestMarkers(t *testing.T) {
	valid := marker{kind: markBlocked, Fleet: "default", Nonce: testNonce, Attempt: testNonce + "-2"}
	line, err := valid.line()
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := readMarker(line + "\r\nrest"); !ok || got != valid {
		t.Errorf("read back %+v, %v", got, ok)
	}
	for _, body := range []string{
		"", "text", " " + line, "x" + line, line + " ", "text\n" + line, strings.Replace(line, "v1", "v2", 1),
		strings.Replace(line, "blocked", "unheard", 1), strings.Replace(line, "} -->", `,"attempt":"x"} x -->`, 1),
		strings.Replace(line, `{"fleet"`, `{"fleet":"a"}{"fleet"`, 1), strings.Replace(line, testNonce, "TOOLOUD1", 1),
		strings.Replace(line, "default", "de fault", 1), strings.Replace(line, `"attempt"`, `"run":"x","attempt"`, 1),
	} {
		if m, ok := readMarker(body); ok {
			t.Errorf("%q was read as %+v", body, m)
		}
	}
	for _, m := range []marker{
		{kind: markClaim, Fleet: "a b", Nonce: testNonce},
		{kind: markClaim, Fleet: "a", Nonce: "short"},
		{kind: "x", Fleet: "a", Nonce: testNonce},
		{kind: markBlocked, Fleet: "a", Nonce: testNonce, Attempt: "-->"},
		{kind: markClaim, Fleet: "a", Nonce: testNonce, Ended: "maybe"},
	} {
		if line, err := m.line(); err == nil {
			t.Errorf("%+v was written as %q", m, line)
		}
	}
}
