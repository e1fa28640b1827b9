package github

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"retake/internal/github/api"
	"retake/internal/github/ask"
	"retake/internal/github/claims"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
)

func TestEscalationIsNotRepeatedOverAHuman(t *testing.T) {
	inWorld(t, func(w *world) {
		t, ctx := w.T, w.Context()
		w.claimed(w.client("retake-bot"))
		escalate := operations["escalate"].run
		w.must(escalate(ctx, w, w.client("retake-bot")))
		for _, who := range []string{"acme", "retake-bot"} { // retake-bot: the owner of our token, by hand
			w.sim.RemoveLabel(w.key, who, "agent-blocked")
			w.must(escalate(ctx, w, w.client("retake-bot")))
			w.wantLabels()
			w.sim.AddLabel(w.key, "acme", "agent-blocked")
		}
		w.sim.RemoveLabel(w.key, "acme", "agent-blocked")
		// A late repetition does not block an issue that was delivered in the meantime.
		w.claimed(w.client("retake-bot"))
		w.must(deliverWatched(ctx, w, w.client("retake-bot")))
		time.Sleep(time.Minute)
		w.must(escalate(ctx, w, w.client("retake-bot")))
		w.wantLabels("agent-review")
		w.must(takeBack(ctx, w, w.client("retake-bot")))
		// The next question of the same claim is another comment.
		w.claimed(w.client("retake-bot"))
		w.must(w.client("retake-bot").People.Escalate(ctx,
			ask.Escalation{Key: w.key, Nonce: testNonce, AttemptID: testNonce +
				"-2", Reason: "timeout"}))
		w.wantLabels("agent-blocked")
		if n := len(w.marked(tracker.MarkBlocked)); n != 2 {
			t.Errorf("%d escalations, want 2", n)
		}
	})
}

// TestDeletedWhileItIsAsked checks that a question is not repeated if a person deletes it immediately.
func TestDeletedWhileItIsAsked(t *testing.T) {
	inWorld(t, func(w *world) {
		w.claimed(w.client("retake-bot"))
		asked := 0
		c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				for _, question := range w.marked(tracker.MarkBlocked) {
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

// TestDeletedWhileTheDirectorIsKilled checks that a question is repeated if a person deletes it while its director is
// killed. The successor cannot know that it was posted. Even the blocked label proves little, because an earlier
// question or a person may have added it.
func TestDeletedWhileTheDirectorIsKilled(t *testing.T) {
	// The thread, the issue and the question were requested. The label, its read-back and the claimed label follow.
	for stop := 4; stop <= 6; stop++ {
		inWorld(t, func(w *world) {
			w.claimed(w.client("retake-bot"))
			escalate := operations["escalate"].run
			if err := escalate(w.Context(), w, w.client("retake-bot", dying(stop, true))); !errors.Is(err, errCrash) {
				w.Fatalf("request %d: %v", stop, err)
			}
			for _, question := range w.marked(tracker.MarkBlocked) {
				w.sim.DeleteComment(w.key, "acme", question.ID)
			}
			if n := len(w.sim.Deleted(w.key)); n != 1 {
				w.Fatalf("request %d: %d questions deleted", stop, n)
			}
			for range 2 {
				w.must(escalate(w.Context(), w, w.client("retake-bot")))
				if n := len(w.marked(tracker.MarkBlocked)); n != 1 {
					w.Errorf("request %d: %d questions, want one", stop, n)
				}
			}
			w.wantLabels("agent-blocked")
		})
	}
}

// TestACommentThatIsSaidToBeThere lets a proxy between GitHub and the client confirm a comment without forwarding it.
// The repetition writes the comment.
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
				if err := op.run(w.Context(), w, c); api.KindOf(err) != api.KindTransient {
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

// TestWhatIsSaidToBeDone is like TestACommentThatIsSaidToBeThere, for each REST write of a delivery and of an outage
// issue, except for labels.
func TestWhatIsSaidToBeDone(t *testing.T) {
	for name, writes := range map[string]int{
		"deliver": 2, "deliver, watched": 2, "deliver again, ready": 1,
		"incident": 1,
	} {
		for lie := 1; lie <= writes; lie++ {
			t.Run(fmt.Sprintf("%s, write %d", name, lie), func(t *testing.T) {
				op := operations[name]
				inWorld(t, func(w *world) {
					if name != "deliver again, ready" { // REST cannot end a draft
						w.withoutGraphQL()
					}
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
					if err := op.run(w.Context(), w, c); api.KindOf(err) != api.KindTransient {
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
		got, err := w.client("other-bot", func(o *Options) { o.Fleet = "night" }).Claims.Claim(ctx,
			claimRequest(w, "aaaabbbb"))
		w.must(err)
		if got.Outcome != claims.Won {
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
		w.must(c.Claims.Progress(ctx, w.key, testNonce, pages.ProgressView{State: "Running"})) // too late
		if body := w.marked(tracker.MarkClaim)[0].Body; !strings.Contains(body, "**In review**") {
			t.Errorf("late progress replaced the report: %q", body)
		}
		w.sim.AddLabel(w.key, "acme", "agent-task")
		got, err := c.Claims.Claim(ctx, claimRequest(w, "aaaabbbb"))
		w.must(err)
		if got.Outcome != claims.Won {
			t.Fatalf("claim of a delivered issue = %+v", got)
		}
		w.must(operations["deliver"].run(ctx, w, c)) // the old delivery, once more
		w.wantLabels("agent-claimed")
	})
}
