package github

import (
	"net/http"
	"testing"
	"time"

	"retake/internal/github/claims"
	"retake/internal/github/gate"
	"retake/internal/github/tracker"
)

// TestFreeALabelWithoutAClaim checks that a claimed label without a claim is removed after a while. The issue is
// offered again if we removed the task label.
func TestFreeALabelWithoutAClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		ctx, c := w.Context(), w.client("retake-bot")
		w.claimed(c)
		for _, r := range w.marked(tracker.MarkClaim) { // a person deletes our comment
			_, err := c.API.Lane(gate.Claim).Issues.DeleteComment(ctx, "acme", "widgets", r.ID)
			w.must(err)
		}
		if freed, _, err := c.Claims.Free(ctx, w.key, time.Hour); err != nil || freed {
			t.Errorf("too early: %t, %v", freed, err)
		}
		time.Sleep(2 * time.Hour)
		if freed, _, err := w.client("other-bot").Claims.Free(ctx, w.key, time.Hour); err != nil || freed {
			t.Errorf("by another account: %t, %v", freed, err)
		}
		freed, _, err := c.Claims.Free(ctx, w.key, time.Hour)
		w.must(err)
		if !freed {
			t.Error("not freed")
		}
		w.wantLabels("agent-task")
	})
	inWorld(t, func(w *world) {
		c := w.client("retake-bot")
		w.claimed(c)
		time.Sleep(2 * time.Hour)
		if freed, _, err := c.Claims.Free(w.Context(), w.key, 0); err != nil || freed {
			t.Errorf("claim of an account: %t, %v", freed, err)
		}
	})
}

// TestFreeGivesALabelBack lets another fleet with the same account claim the issue after Free has read the issue and
// before it removes the label. The label belongs to the new claim, so Free must restore it.
func TestFreeGivesALabelBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.sim.AddLabel(w.key, "retake-bot", "agent-claimed")
		time.Sleep(2 * time.Minute)
		sister := w.client("retake-bot", func(o *Options) { o.Fleet = "night" })
		claimed := false
		c := w.client("retake-bot", via(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodGet && !claimed {
					claimed = true
					if got, err := sister.Claims.Claim(w.Context(), claimRequest(w, testNonce)); err != nil ||
						got.Outcome != claims.Won {
						t.Errorf("claim = %+v, %v", got, err)
					}
				}
				return next.RoundTrip(r)
			})
		}))
		freed, _, err := c.Claims.Free(w.Context(), w.key, time.Hour)
		w.must(err)
		if freed || !claimed {
			t.Errorf("freed %t, claimed %t", freed, claimed)
		}
		w.wantLabels("agent-claimed")
	})
}
