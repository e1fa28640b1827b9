package github

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// operation is what must be repeatable; before brings the issue to where it starts.
type operation struct {
	before func(context.Context, *world, *Client) error
	run    func(context.Context, *world, *Client) error
	kind   string   // of the one comment
	events []string // label events of before and run together
	labels []string
}

var operations = map[string]operation{
	"claim": {
		run:  claimOnce,
		kind: markClaim, events: []string{"+agent-claimed", "-agent-task"}, labels: []string{"agent-claimed"},
	},
	"claim of what was in review": {
		before: func(_ context.Context, w *world, _ *Client) error {
			w.sim.AddLabel(w.key, "acme", "agent-review")
			return nil
		},
		run:  claimOnce,
		kind: markClaim, events: []string{"+agent-claimed", "-agent-review", "-agent-task"},
		labels: []string{"agent-claimed"},
	},
	"escalate": {
		before: claimOnce,
		run:    escalateOnce,
		kind:   markBlocked, events: []string{"+agent-claimed", "-agent-task", "+agent-blocked", "-agent-claimed"},
		labels: []string{"agent-blocked"},
	},
	"escalate from review": {
		before: inOrder(claimOnce, deliverWatched),
		run:    escalateOnce,
		kind:   markBlocked, events: []string{
			"+agent-claimed", "-agent-task", "+agent-review", "-agent-claimed",
			"+agent-blocked", "-agent-review",
		},
		labels: []string{"agent-blocked"},
	},
	"release": {
		before: claimOnce,
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.Release(ctx, ReleaseRequest{Key: w.key, Nonce: testNonce, Why: "no progress", RestoreTask: true})
		},
		kind: markRelease, events: []string{"+agent-claimed", "-agent-task", "+agent-task", "-agent-claimed"},
		labels: []string{"agent-task"},
	},
	"reclaim": {
		before: claimOnce,
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.Release(ctx, ReleaseRequest{
				Key: w.key, Nonce: testNonce, Why: "no progress for 6 hours",
				RestoreTask: true, Reclaim: true,
			})
		},
		kind: markRelease, events: []string{"+agent-claimed", "-agent-task", "+agent-task", "-agent-claimed"},
		labels: []string{"agent-task"},
	},
	"go on after a command": {
		before: func(ctx context.Context, w *world, c *Client) error {
			if err := claimOnce(ctx, w, c); err != nil {
				return err
			}
			return c.Escalate(ctx, Escalation{
				Key: w.key, Nonce: testNonce, AttemptID: testNonce + "-1",
				Reason: "needs_human",
			})
		},
		run: func(ctx context.Context, w *world, c *Client) error {
			_, err := c.Claim(ctx, ClaimRequest{
				Key: w.key, Nonce: testNonce, RunID: "run_1", Unblock: true,
				Answers: 1,
			})
			return err
		},
		kind: markClaim,
		events: []string{
			"+agent-claimed", "-agent-task", "+agent-blocked", "-agent-claimed", "+agent-claimed",
			"-agent-blocked",
		},
		labels: []string{"agent-claimed"},
	},
	"reply": {
		before: claimOnce,
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.Reply(ctx, ReplyRequest{
				Key: w.key, Comment: 7, Edit: time.Unix(1_700_000_000, 0),
				Kind: ReplyHelp,
			})
		},
		kind: markReply, events: []string{"+agent-claimed", "-agent-task"}, labels: []string{"agent-claimed"},
	},
	"release without restoring": {
		before: claimOnce,
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.Release(ctx, ReleaseRequest{Key: w.key, Nonce: testNonce, Why: "closed"})
		},
		kind: markRelease, events: []string{"+agent-claimed", "-agent-task", "-agent-claimed"},
	},
	"deliver": {
		before: claimOnce,
		run: func(ctx context.Context, w *world, c *Client) error {
			_, err := c.Deliver(ctx, DeliverRequest{
				Key: w.key, Nonce: testNonce, Branch: "retake/1-a1", Base: "main",
				Title: "Parse", PullRequest: true,
			})
			return err
		},
		kind: markClaim, events: []string{"+agent-claimed", "-agent-task", "+agent-review", "-agent-claimed"},
		labels: []string{"agent-review"},
	},
	"deliver, watched": {
		before: claimOnce,
		run:    deliverWatched,
		kind:   markClaim, events: []string{"+agent-claimed", "-agent-task", "+agent-review", "-agent-claimed"},
		labels: []string{"agent-review"},
	},
	"deliver again, ready": {
		before: inOrder(claimOnce, deliverDraft, takeBack),
		run: func(ctx context.Context, w *world, c *Client) error {
			req := watched(w)
			req.Number, req.Summary = 2, "Better."
			_, err := c.Deliver(ctx, req)
			if pr := w.sim.Issue(testPull); err == nil && (pr.Draft || !strings.Contains(pr.Body, "> Better.")) {
				err = fmt.Errorf("pull request %+v", pr)
			}
			return err
		},
		kind: markClaim,
		events: []string{
			"+agent-claimed", "-agent-task", "+agent-review", "-agent-claimed", "+agent-claimed", "-agent-review",
			"+agent-review", "-agent-claimed",
		},
		labels: []string{"agent-review"},
	},
	"delete the branch": {
		before: inOrder(claimOnce, deliverWatched),
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.DeleteBranch(ctx, testRepo, "retake/1-a1", w.sim.Issue(testPull).HeadSHA)
		},
		kind: markClaim, events: []string{"+agent-claimed", "-agent-task", "+agent-review", "-agent-claimed"},
		labels: []string{"agent-review"},
	},
	"incident": {
		before: claimOnce,
		run: func(ctx context.Context, _ *world, c *Client) error {
			_, err := c.EnsureIncident(ctx, outage)
			return err
		},
		kind: markClaim, events: []string{"+agent-claimed", "-agent-task"}, labels: []string{"agent-claimed"},
	},
	"take back from review": {
		before: inOrder(claimOnce, deliverWatched),
		run:    takeBack,
		kind:   markClaim,
		events: []string{
			"+agent-claimed", "-agent-task", "+agent-review", "-agent-claimed", "+agent-claimed",
			"-agent-review",
		},
		labels: []string{"agent-claimed"},
	},
	"merged": {
		before: inOrder(claimOnce, deliverWatched),
		run:    endMerged,
		kind:   markClaim, events: []string{
			"+agent-claimed", "-agent-task", "+agent-review", "-agent-claimed",
			"-agent-review",
		},
	},
	"release from review": {
		before: inOrder(claimOnce, deliverWatched),
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.Release(ctx, ReleaseRequest{Key: w.key, Nonce: testNonce, Why: "the pull request was closed"})
		},
		kind: markRelease, events: []string{
			"+agent-claimed", "-agent-task", "+agent-review", "-agent-claimed",
			"-agent-review",
		},
	},
	"release of what is blocked, to a person": {
		before: inOrder(claimOnce, escalateOnce),
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.Release(ctx, ReleaseRequest{Key: w.key, Nonce: testNonce, Taken: "acme", Branch: "retake/1-a1"})
		},
		kind: markRelease, events: []string{
			"+agent-claimed", "-agent-task", "+agent-blocked", "-agent-claimed",
			"-agent-blocked",
		},
	},
	"remind": {
		before: inOrder(claimOnce, escalateOnce),
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.Remind(ctx, RemindRequest{Key: w.key, Nonce: testNonce, Block: testNonce + "-1"})
		},
		kind: markReminder, events: []string{"+agent-claimed", "-agent-task", "+agent-blocked", "-agent-claimed"},
		labels: []string{"agent-blocked"},
	},
	"progress": {
		before: claimOnce,
		run: func(ctx context.Context, w *world, c *Client) error {
			return c.Progress(ctx, w.key, testNonce, ProgressView{State: "Running", Attempt: 1})
		},
		kind: markClaim, events: []string{"+agent-claimed", "-agent-task"}, labels: []string{"agent-claimed"},
	},
}

func claimOnce(ctx context.Context, w *world, c *Client) error {
	got, err := c.Claim(ctx, ClaimRequest{Key: w.key, Nonce: testNonce, RunID: "run_1"})
	if err == nil && got.Outcome != Won {
		return fmt.Errorf("claim = %+v", got)
	}
	return err
}

func escalateOnce(ctx context.Context, w *world, c *Client) error {
	return c.Escalate(ctx, Escalation{
		Key: w.key, Nonce: testNonce, AttemptID: testNonce + "-1", Reason: "build_failed",
		Stage: "VALIDATE",
	})
}

func deliverWatched(ctx context.Context, w *world, c *Client) error {
	_, err := c.Deliver(ctx, watched(w))
	return err
}

func deliverDraft(ctx context.Context, w *world, c *Client) error {
	req := watched(w)
	req.Draft = true
	_, err := c.Deliver(ctx, req)
	return err
}

func watched(w *world) DeliverRequest {
	return DeliverRequest{
		Key: w.key, Nonce: testNonce, Branch: "retake/1-a1", Base: "main", Title: "Parse",
		PullRequest: true, Watch: true, Summary: "Parsed.",
	}
}

func takeBack(ctx context.Context, w *world, c *Client) error {
	got, err := c.Claim(ctx, ClaimRequest{Key: w.key, Nonce: testNonce, RunID: "run_1", Unblock: true, Answers: 1})
	if err == nil && got.Outcome != Won {
		return fmt.Errorf("claim = %+v", got)
	}
	return err
}

func endMerged(ctx context.Context, w *world, c *Client) error {
	return c.Release(ctx, ReleaseRequest{Key: w.key, Nonce: testNonce, Ended: "merged", PullRequest: 2, By: "acme"})
}

// inOrder does one step after the other.
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

// dying lets left requests through. The next one is the last: with after it has its effect, but nobody hears of it.
func dying(left int, after bool) func(*Options) {
	return via(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			left--
			if left >= 0 {
				return next.RoundTrip(r)
			}
			if left == -1 && after {
				_, _ = next.RoundTrip(r)
			}
			return nil, errCrash
		})
	})
}

// TestRepeatedAfterACrashAtAnyRequest stops each operation at each of its requests, before and after the effect, and
// repeats it with a client that remembers nothing, twice.
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
			if w.rest { // labels that are set at once have no order
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

func TestEscalationIsNotRepeatedOverAHuman(t *testing.T) {
	inWorld(t, func(w *world) {
		t, ctx := w.T, w.Context()
		w.claimed(w.client("retake-bot"))
		escalate := operations["escalate"].run
		w.must(escalate(ctx, w, w.client("retake-bot")))
		for _, who := range []string{"acme", "retake-bot"} { // the second by hand: it is a person's account
			w.sim.RemoveLabel(w.key, who, "agent-blocked")
			w.must(escalate(ctx, w, w.client("retake-bot")))
			w.wantLabels()
			w.sim.AddLabel(w.key, "acme", "agent-blocked")
		}
		w.sim.RemoveLabel(w.key, "acme", "agent-blocked")
		// What was delivered meanwhile is not blocked either, by a repetition that comes late.
		w.claimed(w.client("retake-bot"))
		w.must(deliverWatched(ctx, w, w.client("retake-bot")))
		time.Sleep(time.Minute)
		w.must(escalate(ctx, w, w.client("retake-bot")))
		w.wantLabels("agent-review")
		w.must(takeBack(ctx, w, w.client("retake-bot")))
		// The next block of the same claim is another comment.
		w.claimed(w.client("retake-bot"))
		w.must(w.client("retake-bot").Escalate(ctx, Escalation{Key: w.key, Nonce: testNonce, AttemptID: testNonce +
			"-2", Reason: "timeout"}))
		w.wantLabels("agent-blocked")
		if n := len(w.marked(markBlocked)); n != 2 {
			t.Errorf("%d escalations, want 2", n)
		}
	})
}

// A question that a person deletes as soon as it is shown has been asked: it is not asked once more.
func TestDeletedWhileItIsAsked(t *testing.T) {
	inWorld(t, func(w *world) {
		w.claimed(w.client("retake-bot"))
		asked := 0
		c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				for _, question := range w.marked(markBlocked) {
					asked++
					w.sim.DeleteComment(w.key, "acme", question.ID)
				}
				return resp, err
			})
		}))
		w.must(operations["escalate"].run(w.Context(), w, c))
		w.wantLabels("agent-blocked")
		if asked != 1 {
			w.Errorf("asked %d times", asked)
		}
	})
}

// A question that a person deletes while the director that asked it is killed is asked once more: nothing tells
// its successor that it was asked. Not even the blocked label does, which may be an earlier question's, or a
// person's.
func TestDeletedWhileTheDirectorIsKilled(t *testing.T) {
	// thread, issue and question were requested: the label, reading it back, the claimed label
	for stop := 4; stop <= 6; stop++ {
		inWorld(t, func(w *world) {
			w.claimed(w.client("retake-bot"))
			escalate := operations["escalate"].run
			if err := escalate(w.Context(), w, w.client("retake-bot", dying(stop, true))); !errors.Is(err, errCrash) {
				w.Fatalf("request %d: %v", stop, err)
			}
			for _, question := range w.marked(markBlocked) {
				w.sim.DeleteComment(w.key, "acme", question.ID)
			}
			if n := len(w.sim.Deleted(w.key)); n != 1 {
				w.Fatalf("request %d: %d questions deleted", stop, n)
			}
			for range 2 {
				w.must(escalate(w.Context(), w, w.client("retake-bot")))
				if n := len(w.marked(markBlocked)); n != 1 {
					w.Errorf("request %d: %d questions, want one", stop, n)
				}
			}
			w.wantLabels("agent-blocked")
		})
	}
}

// Something between GitHub and us says that a comment was written, and has passed nothing on: it is written by
// the repetition.
func TestACommentThatIsSaidToBeThere(t *testing.T) {
	for _, name := range []string{"escalate", "release", "reclaim", "claim", "remind"} {
		t.Run(name, func(t *testing.T) {
			op := operations[name]
			inWorld(t, func(w *world) {
				w.withoutGraphQL()
				if op.before != nil {
					w.must(op.before(w.Context(), w, w.client("retake-bot")))
				}
				lies := 0
				c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
					return roundTrip(func(r *http.Request) (*http.Response, error) {
						if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/comments") || lies > 0 {
							return next.RoundTrip(r)
						}
						lies++
						return &http.Response{
							StatusCode: http.StatusOK, Header: http.Header{},
							Body: io.NopCloser(strings.NewReader("{}")), Request: r,
						}, nil
					})
				}))
				if err := op.run(w.Context(), w, c); kindOf(err) != KindTransient {
					w.Errorf("error = %v, want a transient one", err)
				}
				w.must(op.run(w.Context(), w, c))
				if n := len(w.marked(op.kind)); n != 1 || lies != 1 {
					w.Errorf("%d comments after %d lies, want one of each", n, lies)
				}
				w.wantLabels(op.labels...)
			})
		})
	}
}

// The same of each write of a delivery, and of an outage, but for labels.
func TestWhatIsSaidToBeDone(t *testing.T) {
	for name, writes := range map[string]int{
		"deliver": 2, "deliver, watched": 2, "deliver again, ready": 2,
		"incident": 1,
	} {
		for lie := 1; lie <= writes; lie++ {
			t.Run(fmt.Sprintf("%s, write %d", name, lie), func(t *testing.T) {
				op := operations[name]
				inWorld(t, func(w *world) {
					w.must(op.before(w.Context(), w, w.client("retake-bot")))
					seen := 0
					c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
						return roundTrip(func(r *http.Request) (*http.Response, error) {
							if r.Method != http.MethodPost && r.Method != http.MethodPatch ||
								strings.HasSuffix(r.URL.Path, "/graphql") {
								return next.RoundTrip(r)
							}
							if seen++; seen != lie {
								return next.RoundTrip(r)
							}
							return &http.Response{
								StatusCode: http.StatusOK, Header: http.Header{},
								Body: io.NopCloser(strings.NewReader("{}")), Request: r,
							}, nil
						})
					}))
					if err := op.run(w.Context(), w, c); kindOf(err) != KindTransient {
						w.Errorf("error = %v after %d writes, want a transient one", err, seen)
					}
					w.must(op.run(w.Context(), w, c))
					w.wantLabels(op.labels...)
				})
			})
		}
	}
}

func TestReleaseIsNotRepeatedOverTheNextClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.T
		ctx := t.Context()
		w.claimed(w.client("retake-bot"))
		release := operations["release"].run
		w.must(release(ctx, w, w.client("retake-bot")))
		got, err := w.client("other-bot", func(o *Options) { o.Fleet = "night" }).Claim(ctx,
			claimRequest(w, "aaaabbbb"))
		w.must(err)
		if got.Outcome != Won {
			t.Fatalf("second claim = %+v", got)
		}
		w.must(release(ctx, w, w.client("retake-bot")))
		w.wantLabels("agent-claimed")
	})
}

func TestANewTaskAfterDelivery(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.T
		ctx := t.Context()
		c := w.client("retake-bot")
		w.claimed(c)
		w.must(operations["deliver"].run(ctx, w, c))
		w.must(c.Progress(ctx, w.key, testNonce, ProgressView{State: "Running"})) // too late
		if body := w.marked(markClaim)[0].Body; !strings.Contains(body, "**In review**") {
			t.Errorf("late progress replaced the report: %q", body)
		}
		w.sim.AddLabel(w.key, "acme", "agent-task")
		got, err := c.Claim(ctx, claimRequest(w, "aaaabbbb"))
		w.must(err)
		if got.Outcome != Won {
			t.Fatalf("claim of a delivered issue = %+v", got)
		}
		w.must(operations["deliver"].run(ctx, w, c)) // the old delivery, once more
		w.wantLabels("agent-claimed")
	})
}
