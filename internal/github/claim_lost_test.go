package github

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestClaimThatNobodyFinishesIsFoundAgain stops a claim for good at each of its requests, as when the journal is lost with it: the issue always shows
// a label, and a director that knows nothing either finds the claim, or can claim the issue within minutes.
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
					if labels := w.sim.Issue(w.key).Labels; !slices.Contains(labels, "agent-task") && !slices.Contains(labels, "agent-claimed") {
						t.Fatalf("stopped at request %d: the issue has the labels %q", stops, labels)
					}
					next := w.client("retake-bot")
					if w.find(next).Nonce == testNonce {
						return // the rebuilt task goes on
					}
					time.Sleep(2 * time.Minute)
					_, _, err = next.Free(t.Context(), w.key, 6*time.Hour)
					w.must(err)
					w.wantLabels("agent-task")
					if got, err := next.Claim(t.Context(), claimRequest(w, "aaaabbbb")); err != nil || got.Outcome != Won {
						t.Errorf("stopped at request %d: the next claim = %+v, %v", stops, got, err)
					}
				})
			}
		})
	}
}
