package github

import (
	"testing"

	"retake/internal/github/githubtest"
)

// TestKeepLabel checks that exactly one of our labels remains after any changes by people. A repetition after a failure
// of any request, and another repetition, have the same result.
func TestKeepLabel(t *testing.T) {
	for _, x := range []struct {
		there  []string
		again  bool
		closed bool
		want   []string
	}{
		{there: []string{"agent-review", "agent-blocked", "agent-task", "bug"}, want: []string{"agent-review", "bug"}},
		{there: []string{"agent-review", "bug"}, want: []string{"agent-review", "bug"}},
		{there: []string{"agent-claimed", "bug"}, want: []string{"agent-claimed", "bug"}},
		{there: []string{"agent-claimed", "bug"}, again: true, want: []string{"agent-review", "bug"}},
		{there: []string{"bug"}, again: true, want: []string{"agent-review", "bug"}},
		{
			there: []string{"agent-review", "agent-blocked"}, again: true, closed: true,
			want: []string{"agent-blocked", "agent-review"},
		},
	} {
		for failing := range 4 {
			inWorld(t, func(w *world) {
				c := w.client("retake-bot")
				for _, label := range w.sim.Issue(w.key).Labels {
					w.sim.RemoveLabel(w.key, "acme", label)
				}
				for _, label := range x.there {
					w.sim.AddLabel(w.key, "acme", label)
				}
				if x.closed {
					w.sim.SetState(w.key, "acme", "closed")
				}
				w.inject(githubtest.Fault{Skip: failing, CutAfter: true})
				for range 5 {
					// the director tries again after an error
					_ = c.Labels.KeepLabel(w.Context(), w.key, "agent-review", x.again)
				}
				w.wantLabels(x.want...)
				changes := len(w.changes())
				w.must(c.Labels.KeepLabel(w.Context(), w.key, "agent-review", x.again))
				if got := w.changes()[changes:]; len(got) > 0 {
					w.Errorf("%+v: it changed %+v once more", x, got)
				}
			})
		}
	}
}
