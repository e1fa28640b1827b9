package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/github/ask"
	"retake/internal/github/claims"
	"retake/internal/github/deliver"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
)

// operation must be repeatable. before sets the issue up.
type operation struct {
	before func(context.Context, *world, *Client) error
	run    func(context.Context, *world, *Client) error
	kind   string   // kind of marker that exactly one comment must have
	events []string // label events of before and run together
	labels []string
}

var operations = map[string]operation{
	"claim": {
		run:  claimOnce,
		kind: tracker.MarkClaim, events: []string{"+agent-claimed", "-agent-task"}, labels: []string{"agent-claimed"},
	},
	"claim of work in review": {
		before: func(_ context.Context, w *world, _ *Client) error {
			w.sim.AddLabel(w.key, "acme", "agent-review")
			return nil
		},
		run:  claimOnce,
		kind: tracker.MarkClaim, events: []string{"+agent-claimed", "-agent-review", "-agent-task"},
		labels: []string{"agent-claimed"},
	},
	"escalate": {
		before: claimOnce,
		run:    escalateOnce,
		kind:   tracker.MarkBlocked, events: []string{
			"+agent-claimed", "-agent-task", "+agent-blocked",
			"-agent-claimed",
		},
		labels: []string{"agent-blocked"},
	},
	"escalate from review": {
		before: inOrder(claimOnce, deliverWatched),
		run:    escalateOnce,
		kind:   tracker.MarkBlocked, events: []string{
			"+agent-claimed", "-agent-task", "+agent-review", "-agent-claimed",
			"+agent-blocked", "-agent-review",
		},
		labels: []string{"agent-blocked"},
	},
	"release": {
		before: claimOnce,
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.Claims.Release(ctx, claims.ReleaseRequest{
				Key: w.key, Nonce: testNonce, Why: "no progress",
				RestoreTask: true,
			})
		},
		kind: tracker.MarkRelease, events: []string{"+agent-claimed", "-agent-task", "+agent-task", "-agent-claimed"},
		labels: []string{"agent-task"},
	},
	"reclaim": {
		before: claimOnce,
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.Claims.Release(ctx, claims.ReleaseRequest{
				Key: w.key, Nonce: testNonce, Why: "no progress for 6 hours",
				RestoreTask: true, Reclaim: true,
			})
		},
		kind: tracker.MarkRelease, events: []string{"+agent-claimed", "-agent-task", "+agent-task", "-agent-claimed"},
		labels: []string{"agent-task"},
	},
	"resume after a command": {
		before: func(ctx context.Context, w *world, c *Client) error {
			if err := claimOnce(ctx, w, c); err != nil {
				return err
			}
			return c.People.Escalate(ctx, ask.Escalation{
				Key: w.key, Nonce: testNonce, AttemptID: testNonce + "-1",
				Reason: "needs_human",
			})
		},
		run: func(ctx context.Context, w *world, c *Client) error {
			_, err := c.Claims.Claim(ctx, claims.Request{
				Key: w.key, Nonce: testNonce, RunID: "run_1", Unblock: true,
				Answers: 1,
			})
			return err
		},
		kind: tracker.MarkClaim,
		events: []string{
			"+agent-claimed", "-agent-task", "+agent-blocked", "-agent-claimed", "+agent-claimed",
			"-agent-blocked",
		},
		labels: []string{"agent-claimed"},
	},
	"reply": {
		before: claimOnce,
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.People.Reply(ctx, ask.ReplyRequest{
				Key: w.key, Comment: 7, Edit: time.Unix(1_700_000_000, 0),
				Kind: ask.ReplyHelp,
			})
		},
		kind: tracker.MarkReply, events: []string{"+agent-claimed", "-agent-task"}, labels: []string{"agent-claimed"},
	},
	"release without restoring": {
		before: claimOnce,
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.Claims.Release(ctx, claims.ReleaseRequest{Key: w.key, Nonce: testNonce, Why: "closed"})
		},
		kind: tracker.MarkRelease, events: []string{"+agent-claimed", "-agent-task", "-agent-claimed"},
	},
	"deliver": {
		before: claimOnce,
		run: func(ctx context.Context, w *world, c *Client) error {
			_, err := c.Deliveries.Deliver(ctx, deliver.Request{
				Key: w.key, Nonce: testNonce, Branch: "retake/1-a1", Base: "main",
				Title: "Parse", PullRequest: true,
			})
			return err
		},
		kind: tracker.MarkClaim, events: []string{"+agent-claimed", "-agent-task", "+agent-review", "-agent-claimed"},
		labels: []string{"agent-review"},
	},
	"deliver, watched": {
		before: claimOnce,
		run:    deliverWatched,
		kind:   tracker.MarkClaim, events: []string{"+agent-claimed", "-agent-task", "+agent-review", "-agent-claimed"},
		labels: []string{"agent-review"},
	},
	"deliver again, ready": {
		before: inOrder(claimOnce, deliverDraft, takeBack),
		run: func(ctx context.Context, w *world, c *Client) error {
			req := watched(w)
			req.Number, req.Summary = 2, "Better."
			_, err := c.Deliveries.Deliver(ctx, req)
			if pr := w.sim.Issue(testPull); err == nil && (pr.Draft || !strings.Contains(pr.Body, "> Better.")) {
				err = fmt.Errorf("pull request %+v", pr)
			}
			return err
		},
		kind: tracker.MarkClaim,
		events: []string{
			"+agent-claimed", "-agent-task", "+agent-review", "-agent-claimed", "+agent-claimed", "-agent-review",
			"+agent-review", "-agent-claimed",
		},
		labels: []string{"agent-review"},
	},
	"delete the branch": {
		before: inOrder(claimOnce, deliverWatched),
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.Deliveries.DeleteBranch(ctx, testRepo, "retake/1-a1", w.sim.Issue(testPull).HeadSHA)
		},
		kind: tracker.MarkClaim, events: []string{"+agent-claimed", "-agent-task", "+agent-review", "-agent-claimed"},
		labels: []string{"agent-review"},
	},
	"incident": {
		before: claimOnce,
		run: func(ctx context.Context, _ *world, c *Client) error {
			_, err := c.People.EnsureIncident(ctx, outage)
			return err
		},
		kind: tracker.MarkClaim, events: []string{"+agent-claimed", "-agent-task"}, labels: []string{"agent-claimed"},
	},
	"take back from review": {
		before: inOrder(claimOnce, deliverWatched),
		run:    takeBack,
		kind:   tracker.MarkClaim,
		events: []string{
			"+agent-claimed", "-agent-task", "+agent-review", "-agent-claimed", "+agent-claimed",
			"-agent-review",
		},
		labels: []string{"agent-claimed"},
	},
	"merged": {
		before: inOrder(claimOnce, deliverWatched),
		run:    endMerged,
		kind:   tracker.MarkClaim, events: []string{
			"+agent-claimed", "-agent-task", "+agent-review", "-agent-claimed",
			"-agent-review",
		},
	},
	"release from review": {
		before: inOrder(claimOnce, deliverWatched),
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.Claims.Release(ctx, claims.ReleaseRequest{
				Key: w.key, Nonce: testNonce,
				Why: "the pull request was closed",
			})
		},
		kind: tracker.MarkRelease, events: []string{
			"+agent-claimed", "-agent-task", "+agent-review", "-agent-claimed",
			"-agent-review",
		},
	},
	"release of a blocked issue to a person": {
		before: inOrder(claimOnce, escalateOnce),
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.Claims.Release(ctx, claims.ReleaseRequest{
				Key: w.key, Nonce: testNonce, Taken: "acme",
				Branch: "retake/1-a1",
			})
		},
		kind: tracker.MarkRelease, events: []string{
			"+agent-claimed", "-agent-task", "+agent-blocked", "-agent-claimed",
			"-agent-blocked",
		},
	},
	"remind": {
		before: inOrder(claimOnce, escalateOnce),
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.People.Remind(ctx, ask.RemindRequest{Key: w.key, Nonce: testNonce, Block: testNonce + "-1"})
		},
		kind: tracker.MarkReminder, events: []string{
			"+agent-claimed", "-agent-task", "+agent-blocked",
			"-agent-claimed",
		},
		labels: []string{"agent-blocked"},
	},
	"progress": {
		before: claimOnce,
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.Claims.Progress(ctx, w.key, testNonce, pages.ProgressView{State: "Running", Attempt: 1})
		},
		kind: tracker.MarkClaim, events: []string{"+agent-claimed", "-agent-task"}, labels: []string{"agent-claimed"},
	},
}

func claimOnce(ctx context.Context, w *world, c *Client) error {
	got, err := c.Claims.Claim(ctx, claims.Request{Key: w.key, Nonce: testNonce, RunID: "run_1"})
	if err == nil && got.Outcome != claims.Won {
		return fmt.Errorf("claim = %+v", got)
	}
	return err
}

func escalateOnce(ctx context.Context, w *world, c *Client) error {
	return c.People.Escalate(ctx, ask.Escalation{
		Key: w.key, Nonce: testNonce, AttemptID: testNonce + "-1", Reason: "build_failed",
		Stage: "VALIDATE",
	})
}

func deliverWatched(ctx context.Context, w *world, c *Client) error {
	_, err := c.Deliveries.Deliver(ctx, watched(w))
	return err
}

func deliverDraft(ctx context.Context, w *world, c *Client) error {
	req := watched(w)
	req.Draft = true
	_, err := c.Deliveries.Deliver(ctx, req)
	return err
}

func watched(w *world) deliver.Request {
	return deliver.Request{
		Key: w.key, Nonce: testNonce, Branch: "retake/1-a1", Base: "main", Title: "Parse",
		PullRequest: true, Watch: true, Summary: "Parsed.",
	}
}

func takeBack(ctx context.Context, w *world, c *Client) error {
	got, err := c.Claims.Claim(ctx, claims.Request{
		Key: w.key, Nonce: testNonce, RunID: "run_1", Unblock: true,
		Answers: 1,
	})
	if err == nil && got.Outcome != claims.Won {
		return fmt.Errorf("claim = %+v", got)
	}
	return err
}

func endMerged(ctx context.Context, w *world, c *Client) error {
	return c.Claims.Release(ctx, claims.ReleaseRequest{
		Key: w.key, Nonce: testNonce, Ended: "merged", PullRequest: 2,
		By: "acme",
	})
}

// inOrder returns a function that runs the steps in order, and stops at the first error.
func inOrder(steps ...func(context.Context, *world, *Client) error) func(context.Context, *world, *Client) error {
	return func(ctx context.Context, w *world, c *Client) error {
		for _, do := range steps {
			if err := do(ctx, w, c); err != nil {
				return err
			}
		}
		return nil
	}
}

var errCrash = errors.New("crashed")

// dying simulates a crash: it forwards the given number of requests, and fails all later ones. If after is true, it
// also forwards the next request, but loses the answer.
func dying(passes int, after bool) func(*Options) {
	var left atomic.Int64
	left.Store(int64(passes))
	return via(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			now := left.Add(-1)
			if now >= 0 {
				return next.RoundTrip(r)
			}
			if now == -1 && after {
				_, _ = next.RoundTrip(r)
			}
			return nil, errCrash
		})
	})
}

// TestRepeatedAfterACrashAtAnyRequest stops each operation at each of its requests, before and after the effect of the
// request. It then repeats the operation twice with a new client.
func TestRepeatedAfterACrashAtAnyRequest(t *testing.T) {
	for name, op := range operations {
		for mode, setUp := range modes {
			if name == "deliver again, ready" && mode == "REST" {
				continue // REST cannot end a draft
			}
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, after=%v", name, mode, after), func(t *testing.T) {
					t.Parallel()
					op.repeated(t, setUp, after)
				})
			}
		}
	}
}

// repeated stops an operation at each of its requests.
func (op operation) repeated(t *testing.T, setUp func(*world), after bool) {
	stops := 0
	for done := false; !done; stops++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			setUp(w)
			if op.before != nil {
				w.must(op.before(t.Context(), w, w.client("retake-bot")))
			}
			err := op.run(t.Context(), w, w.client("retake-bot", dying(stops, after)))
			done = err == nil
			if !done && !errors.Is(err, errCrash) {
				t.Fatalf("request %d: %v", stops, err)
			}
			w.must(op.run(t.Context(), w, w.client("retake-bot")))
			writes := len(w.changes())
			w.must(op.run(t.Context(), w, w.client("retake-bot")))
			if again := w.changes()[writes:]; len(again) > 0 {
				t.Errorf("stopped at request %d: done, and yet written: %+v", stops, again)
			}
			if got := w.marked(op.kind); len(got) != 1 {
				t.Errorf("stopped at request %d: %d comments: %+v", stops, len(got), got)
			}
			got, want := w.labelEvents(), slices.Clone(op.events)
			if w.rest { // the events of a request that sets all labels can have any order
				slices.Sort(got)
				slices.Sort(want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("stopped at request %d: label events %q, want %q", stops, got, want)
			}
			w.wantLabels(op.labels...)
			if pulls := len(w.sim.Issues(testRepo)) - 1; pulls > 1 {
				t.Errorf("stopped at request %d: %d pull requests", stops, pulls)
			}
			if t.Failed() {
				t.FailNow()
			}
		})
	}
	if stops < 3 {
		t.Errorf("only %d requests", stops)
	}
}
