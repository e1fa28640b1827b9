package director

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestBacklogIsFairToRepositories gives a single worker a long queue in one repository and a short one in another. Each
// issue takes about 50 seconds, so the short queue is served within the limit only if the repositories take turns.
func TestBacklogIsFairToRepositories(t *testing.T) {
	if raced {
		t.Skip("the raced TestBacklogOfAMachine runs the same code")
	}
	const short, issues, after, limit = "acme/gadgets", 5, time.Minute, 13 * time.Minute
	records := openJournal(t)
	synctest.Test(t, func(t *testing.T) {
		f := newPlayedFleet(t, records,
			playedRepo{name: "acme/widgets", issues: 1000, agent: agentTakes},
			playedRepo{name: short, issues: issues, agent: agentTakes, after: after})
		c := f.inForce.Load().Config
		c.Director.MaxWorkers = 1
		f.configure(c)
		f.run(20 * time.Minute)
		last, n := time.Duration(0), 0
		for i, k := range f.order {
			if k.Repo() == short {
				last, n = f.done[i]-after, n+1
			}
		}
		t.Logf("%d of %d deliveries are of the short queue, the last %s after its labels", n, len(f.order), last)
		if n != issues || last > limit {
			t.Errorf("%d issues of the short queue are delivered, the last after %s, want %d within %s", n, last,
				issues, limit)
		}
	})
}
