package github

import (
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/github/ask"
	"retake/internal/github/claims"
	"retake/internal/github/inbox"
	"retake/internal/github/pages"
)

// find returns the result of FindTasks for the world's issue by a director without a journal.
func (w *world) find(c *Client) inbox.Found {
	w.Helper()
	all, _, err := c.Inbox.FindTasks(w.Context(), testRepo, map[int][]string{1: nil})
	w.must(err)
	i := slices.IndexFunc(all, func(f inbox.Found) bool { return f.Key == w.key })
	if i < 0 {
		w.Fatalf("%s is not found", w.key)
	}
	return all[i]
}

func TestFoundClaimAndItsAttempts(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, c := w.Context(), w.client("retake-bot")
		if f := w.find(c); f.Nonce != "" || f.Others {
			t.Errorf("an issue without a claim: %+v", f)
		}
		w.claimed(c)
		if f := w.find(c); f.Nonce != testNonce || f.Attempt != 0 || f.Question != "" || !f.Has("agent-claimed") {
			t.Errorf("claimed: %+v", f)
		}
		w.must(c.Claims.Progress(ctx, w.key, testNonce, pages.ProgressView{
			State: "Running", Attempt: 3, Note: "| 77 |\nattempt 99",
			Attempts: []pages.AttemptLine{
				{Number: 2, Stage: "CODE", Reason: "timeout", Cause: "attempt 88\n| 66 |"},
			},
		}))
		if f := w.find(c); f.Attempt != 3 {
			t.Errorf("attempt %d, want 3: quoted texts must not count", f.Attempt)
		}
		if f := w.find(w.client("other-bot")); f.Nonce != "" || !f.Others {
			t.Errorf("to another account: %+v", f)
		}
		if f := w.find(w.client("retake-bot", func(o *Options) { o.Fleet = "night" })); f.Nonce != "" || !f.Others ||
			len(f.Ended) != 0 {
			t.Errorf("to another fleet: %+v", f)
		}
		w.must(c.Claims.Release(ctx, claims.ReleaseRequest{Key: w.key, Nonce: testNonce, Why: "closed"}))
		if f := w.find(c); f.Nonce != "" || f.Others || !slices.Equal(f.Ended, []string{testNonce}) {
			t.Errorf("released: %+v", f)
		}
	})
}

func TestFoundQuestion(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, c := w.Context(), w.client("retake-bot")
		w.claimed(c)
		w.must(c.People.Escalate(ctx, ask.Escalation{
			Key: w.key, Nonce: testNonce, AttemptID: testNonce + "-2", Reason: "tests_failed",
		}))
		if f := w.find(c); f.Question != testNonce+"-2" || !f.Landed || f.AskedAt.IsZero() {
			t.Errorf("asked: %+v", f)
		}
		time.Sleep(time.Minute)
		w.sim.RemoveLabel(w.key, "acme", "agent-blocked")
		if f := w.find(c); f.Question != testNonce+"-2" || !f.Landed {
			t.Errorf("with its label removed: %+v", f)
		}
	})
	for name, answered := range map[string]bool{
		"a claim followed": true,
		"a person removed the label without a later claim": false,
	} {
		inWorld(t, func(w *world) {
			ctx, c := w.Context(), w.client("retake-bot")
			w.claimed(c)
			w.must(c.People.Escalate(ctx, ask.Escalation{
				Key: w.key, Nonce: testNonce, AttemptID: testNonce + "-2",
				Reason: "tests_failed",
			}))
			time.Sleep(time.Minute)
			if answered {
				_, err := c.Claims.Claim(ctx, claims.Request{Key: w.key, Nonce: testNonce, Unblock: true, Answers: 1})
				w.must(err)
				w.sim.RemoveLabel(w.key, "acme", "agent-claimed")
			} else {
				w.sim.RemoveLabel(w.key, "retake-bot", "agent-blocked")
			}
			if f := w.find(c); f.Question != testNonce+"-2" || !f.Landed || f.Answered != answered {
				t.Errorf("%s: %+v", name, f)
			}
			w.must(c.People.Escalate(ctx, ask.Escalation{
				Key: w.key, Nonce: testNonce, AttemptID: testNonce + "-3",
				Reason: "tests_failed",
			}))
			w.sim.RemoveLabel(w.key, "acme", "agent-blocked")
			if f := w.find(c); f.Answered {
				t.Errorf("%s, then asked again: %+v", name, f)
			}
		})
	}
}

func TestFoundHalfAskedQuestion(t *testing.T) {
	inWorld(t, func(w *world) { // killed between comment and label
		c := w.client("retake-bot")
		w.claimed(c)
		w.sim.AddComment(w.key, "retake-bot", `<!-- retake:blocked v1 {"fleet":"default","nonce":"`+testNonce+
			`","attempt":"`+testNonce+`-2"} -->`)
		if f := w.find(c); f.Question != testNonce+"-2" || f.Landed {
			t.Errorf("half asked: %+v", f)
		}
		w.sim.AddComment(w.key, "mallory", `<!-- retake:blocked v1 {"fleet":"default","nonce":"`+testNonce+
			`","attempt":"`+testNonce+`-9"} -->`)
		if f := w.find(c); f.Question != testNonce+"-2" {
			t.Errorf("a question of another account counts: %+v", f)
		}
	})
}

func TestFoundDelivery(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, c := w.Context(), w.client("retake-bot")
		w.claimed(c)
		w.must(func() error { _, err := c.Deliveries.Deliver(ctx, watched(w)); return err }())
		w.sim.Review(testRepo+"#2", "other-bot", "CHANGES_REQUESTED", "use the other table")
		f := w.find(c)
		if f.Nonce != testNonce || f.Pull == nil || f.Pull.Number != 2 ||
			!strings.HasPrefix(f.Pull.Branch, "retake/1-a") || f.Pull.Head == "" || f.Pull.Change != 0 {
			t.Fatalf("in review: %+v, %+v", f, f.Pull)
		}
		w.sim.Push(testRepo, f.Pull.Branch, strings.Repeat("ab", 20))
		if f := w.find(c); f.Pull.Change == 0 {
			t.Errorf("a review of an older head does not count: %+v", f.Pull)
		}
		w.must(w.sim.Merge(testRepo+"#2", "acme"))
		w.sim.SetState(w.key, "acme", "closed")
		if f := w.find(c); f.Pull == nil || f.State != "closed" || f.Nonce != testNonce {
			t.Errorf("merged, issue closed: %+v", f)
		}
		w.must(endMerged(ctx, w, c))
		if f := w.find(c); f.Nonce != "" || !slices.Contains(f.Ended, testNonce) {
			t.Errorf("over: %+v", f)
		}
	})
}
