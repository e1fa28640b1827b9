package github

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"pgregory.net/rapid"

	"retake/internal/github/api"
	"retake/internal/github/ask"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
)

// TestNothingForgesAMarkerOrBreaksOut checks comments with arbitrary output of workers. A comment has only our marker,
// stays within GitHub's limit, and does not mention people or leak known secrets. Its code blocks end where we close
// them.
func TestNothingForgesAMarkerOrBreaksOut(t *testing.T) {
	c, err := New(Options{
		Options: api.Options{BaseURL: testAPI, Token: noToken}, Fleet: "default",
		Secrets: []string{"hunter2hunter2"},
	})
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
		e := ask.Escalation{
			Key: "acme/widgets#1", Nonce: testNonce, AttemptID: testNonce + "-1",
			Stage: text.Draw(t, "stage"), Reason: text.Draw(t, "reason"), Cause: text.Draw(t, "cause"),
			Facts: []string{text.Draw(t, "fact")},
			Attempts: []pages.AttemptLine{{
				Number: 1, Stage: text.Draw(t, "s"), Reason: text.Draw(t, "r"), Cause: text.Draw(t,
					"c"), Then: text.Draw(t, "then"),
				At: time.Time{},
			}},
			Tried: []string{text.Draw(t, "tried")}, WhyStopped: text.Draw(t, "why"), Ask: text.Draw(t, "ask"),
			Tail: strings.Repeat(text.Draw(t, "tail"), rapid.SampledFrom([]int{0, 1, 1, 2, 400}).Draw(t, "n")),
		}
		e.Tail = e.Tail[:min(len(e.Tail), 32<<10)] // the size of a container's tail
		body, err := tracker.WithMarker(tracker.Marker{
			Kind: tracker.MarkBlocked, Fleet: "default", Nonce: e.Nonce,
			Attempt: e.AttemptID,
		},
			c.People.Preview(e))
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
		if utf8.RuneCountInString(body) > 60_000 || !strings.HasSuffix(body, "fleet `default`</sub>") {
			t.Fatalf("%d characters, ends in %q", utf8.RuneCountInString(body), body[max(0, len(body)-80):])
		}
		var page bytes.Buffer
		if err := goldmark.Convert([]byte(body), &page); err != nil ||
			!strings.Contains(page.String(), "<li>Close the issue: Retake stops working on it.</li>") {
			t.Fatalf("something swallowed the end of %q: %s", body, page.String())
		}
	})
}
