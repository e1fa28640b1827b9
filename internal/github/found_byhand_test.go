package github

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"retake/internal/github/claims"
	"retake/internal/github/deliver"
	"retake/internal/github/githubtest"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
)

// edits are changes of a claim comment by people. known is set if the comment then does not identify the claim anymore,
// so that FindTasks needs the claim from another source.
var edits = map[string]struct {
	does  func(body string) string // empty for a deleted comment
	known bool
}{
	"marker deleted":  {func(body string) string { _, text, _ := strings.Cut(body, "\n"); return text }, false},
	"marker broken":   {func(body string) string { return strings.Replace(body, "v1", "v", 1) }, false},
	"nonce edited":    {func(body string) string { return strings.ReplaceAll(body, testNonce, "aaaabbbb") }, true},
	"comment deleted": {func(string) string { return "" }, true},
}

// TestFoundByAnEditedComment checks that a claim and its question are found after a person edited or deleted the marker
// of the claim comment. The next write repairs the comment.
func TestFoundByAnEditedComment(t *testing.T) {
	for name, edit := range edits {
		for _, asks := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				inWorld(t, func(w *world) {
					c := w.client("retake-bot")
					w.claimed(c)
					w.must(c.Claims.Progress(w.Context(), w.key, testNonce,
						pages.ProgressView{State: "Running", Attempt: 1}))
					if asks {
						w.must(escalateOnce(w.Context(), w, c))
					}
					w.editClaim(edit.does)
					comments := len(w.sim.Issue(w.key).Comments)
					known := map[int][]string{}
					if edit.known && !asks { // a question names its claim
						known[1] = []string{testNonce}
					}
					all, _, err := w.client("retake-bot").Inbox.FindTasks(w.Context(), testRepo, known)
					w.must(err)
					if len(all) != 1 || all[0].Nonce != testNonce || (all[0].Question != "") != asks {
						w.Fatalf("found %+v", all)
					}
					got, err := w.client("retake-bot").Claims.Claim(w.Context(),
						claims.Request{Key: w.key, Nonce: testNonce, Unblock: true, Answers: 1})
					w.must(err)
					w.must(w.client("retake-bot").Claims.Progress(w.Context(), w.key, testNonce,
						pages.ProgressView{State: "Running", Attempt: 2}))
					if name == "comment deleted" {
						comments++
					}
					if now := w.sim.Issue(w.key).Comments; got.Outcome != claims.Won || len(now) != comments ||
						len(w.marked(tracker.MarkClaim)) != 1 ||
						!strings.Contains(w.marked(tracker.MarkClaim)[0].Body, testNonce+`"`) {
						w.Errorf("claimed %+v, comments %+v", got, now)
					}
				})
			})
		}
	}
}

func (w *world) editClaim(does func(string) string) {
	for _, r := range w.marked(tracker.MarkClaim) {
		if body := does(r.Body); body != "" {
			w.sim.EditComment(w.key, "acme", r.ID, body)
		} else {
			w.sim.DeleteComment(w.key, "acme", r.ID)
		}
	}
}

// TestFoundNothingOfWhatHasEnded checks that FindTasks does not return an ended claim after a person edited its
// comment.
func TestFoundNothingOfWhatHasEnded(t *testing.T) {
	for name, ends := range map[string]func(w *world, c *Client) error{
		"released": func(w *world, c *Client) error {
			return c.Claims.Release(w.Context(), claims.ReleaseRequest{Key: w.key, Nonce: testNonce, Why: "closed"})
		},
		"delivered": func(w *world, c *Client) error {
			_, err := c.Deliveries.Deliver(w.Context(), deliver.Request{
				Key: w.key, Nonce: testNonce, Branch: "retake/1-a1",
				Base: "main", Title: "Parse", Summary: "Parsed.",
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c := w.client("retake-bot")
				w.claimed(c)
				w.must(ends(w, c))
				w.editClaim(edits["marker deleted"].does)
				if f := w.find(c); f.Nonce != "" {
					w.Errorf("found %+v", f)
				}
			})
		})
	}
}

// TestFoundBesideOneThatCannotBeRead checks that an unreadable or deleted issue does not hide others.
func TestFoundBesideOneThatCannotBeRead(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.claimed(c)
		other := w.sim.CreateIssue(testRepo, "acme", "Another", "", "agent-task")
		gone := w.sim.CreateIssue(testRepo, "acme", "A third", "", "agent-claimed")
		_, err := c.Claims.Claim(w.Context(), claims.Request{Key: other, Nonce: "aaaabbbb"})
		w.must(err)
		w.sim.Transfer(gone, func() string { w.must(w.sim.AddRepo("acme/gadgets", "", nil)); return "acme/gadgets" }())
		for _, f := range []githubtest.Fault{
			githubtest.ServerError(http.StatusBadGateway),
			{Status: http.StatusNotFound, Body: "{}"},
		} {
			f.Path, f.Times = "/issues/1/comments", 1000
			w.inject(f)
			all, unread, err := c.Inbox.FindTasks(w.Context(), testRepo, map[int][]string{1: nil, 3: nil})
			if w.must(err); len(all) != 1 || all[0].Nonce != "aaaabbbb" || len(unread) != 1 || unread[1] == nil {
				w.Errorf("%d: found %+v, unread %v", f.Status, all, unread)
			}
			w.sim.Repair()
		}
		w.inject(githubtest.Fault{Status: http.StatusBadGateway, Times: 1000})
		if all, _, err := c.Inbox.FindTasks(w.Context(), testRepo, nil); err == nil {
			w.Errorf("in an outage: %+v", slices.Clone(all))
		}
	})
}
