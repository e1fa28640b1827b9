package github

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/github/claims"
	"retake/internal/github/tracker"
)

// TestClaimThatNobodyFinishesIsFoundAgain stops a claim permanently at each of its requests, together with its journal.
// The issue always shows a label, and a new director finds the claim or can claim the issue within minutes.
func TestClaimThatNobodyFinishesIsFoundAgain(t *testing.T) {
	for n := range 4 {
		after, mode := n%2 == 1, map[bool]string{true: "REST", false: "GraphQL"}[n < 2]
		t.Run(fmt.Sprintf("%s, after=%v", mode, after), func(t *testing.T) {
			for stops, done := 0, false; !done; stops++ {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					modes[mode](w)
					err := claimOnce(t.Context(), w, w.client("retake-bot", dying(stops, after)))
					done = err == nil
					if labels := w.sim.Issue(w.key).Labels; !slices.Contains(labels, "agent-task") &&
						!slices.Contains(labels, "agent-claimed") {
						t.Fatalf("stopped at request %d: the issue has the labels %q", stops, labels)
					}
					next := w.client("retake-bot")
					if w.find(next).Nonce == testNonce {
						return // the rebuilt task continues
					}
					time.Sleep(2 * time.Minute)
					_, _, err = next.Claims.Free(t.Context(), w.key, 6*time.Hour)
					w.must(err)
					w.wantLabels("agent-task")
					if got, err := next.Claims.Claim(t.Context(), claimRequest(w, "aaaabbbb")); err != nil ||
						got.Outcome != claims.Won {
						t.Errorf("stopped at request %d: the next claim = %+v, %v", stops, got, err)
					}
				})
			}
		})
	}
}

// TestClaimThatIsTakenBackBetweenItsTries stops a claim at each of its requests. A person then removes our labels, so
// the next try must not claim the issue.
func TestClaimThatIsTakenBackBetweenItsTries(t *testing.T) {
	for mode := range modes {
		for _, person := range []string{"acme", "retake-bot"} { // retake-bot: the owner of our token
			t.Run(mode+", "+person, func(t *testing.T) {
				for stops, done := 0, false; !done; stops++ {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t)
						modes[mode](w)
						err := claimOnce(t.Context(), w, w.client("retake-bot", dying(stops, true)))
						done = err == nil
						// Before the comment, another director may have removed the label, so this does not count.
						if person == "retake-bot" && len(w.marked(tracker.MarkClaim)) == 0 {
							return
						}
						time.Sleep(time.Minute)
						for _, label := range w.sim.Issue(w.key).Labels {
							w.sim.RemoveLabel(w.key, person, label)
						}
						got, err := w.client("retake-bot").Claims.Claim(t.Context(), claimRequest(w, testNonce))
						if w.must(err); got.Outcome != claims.NotEligible || len(w.marked(tracker.MarkClaim)) != 0 {
							t.Errorf("stopped at request %d: the next try = %+v, comments %+v", stops, got,
								w.marked(tracker.MarkClaim))
						}
						w.wantLabels()
					})
				}
			})
		}
	}
}

// TestAnsweredClaimThatIsTakenBackBetweenItsTries distinguishes a claim that was withdrawn after its last call from an
// answer. Removing the blocked label is an instruction to continue.
func TestAnsweredClaimThatIsTakenBackBetweenItsTries(t *testing.T) {
	for name, takenBack := range map[string]bool{"answered by label": false, "answered, and taken back": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c, again := w.client("retake-bot"), claims.Request{
					Key: w.key, Nonce: testNonce, Unblock: true,
					Answers: 1,
				}
				w.claimed(c)
				time.Sleep(time.Minute)
				w.sim.RemoveLabel(w.key, "acme", "agent-claimed") // during the question
				w.sim.AddLabel(w.key, "retake-bot", "agent-blocked")
				w.must(escalateOnce(w.Context(), w, c))
				time.Sleep(time.Minute)
				w.sim.RemoveLabel(w.key, "acme", "agent-blocked")
				want := claims.Won
				if takenBack {
					_, err := c.Claims.Claim(w.Context(), again)
					w.must(err)
					time.Sleep(time.Minute)
					w.sim.RemoveLabel(w.key, "acme", "agent-claimed")
					want = claims.NotEligible
				}
				got, err := w.client("retake-bot").Claims.Claim(w.Context(), again)
				if w.must(err); got.Outcome != want ||
					slices.Contains(w.sim.Issue(w.key).Labels, "agent-claimed") == takenBack {
					t.Errorf("%+v, labels %q", got, w.sim.Issue(w.key).Labels)
				}
			})
		})
	}
}
