package director

import (
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestBacklogIsFairToRepositories labels many issues in one repository and a few in another, while claims are held
// back: by a single worker, or by the hour's new content.
func TestBacklogIsFairToRepositories(t *testing.T) {
	if raced {
		t.Skip("the raced TestBacklogOfAMachine runs the same code")
	}
	const short = "acme/gadgets"
	for _, row := range []struct {
		name    string
		workers int
		repos   []playedRepo
		run     time.Duration
		within  time.Duration // from the labels to the last delivery
	}{
		{
			// Each issue takes about 50 seconds, and every second one is of the short queue.
			"one worker", 1,
			[]playedRepo{
				{name: "acme/widgets", issues: 1000, agent: agentTakes},
				{name: short, issues: 5, agent: agentTakes, after: time.Minute},
			},
			20 * time.Minute, 13 * time.Minute,
		},
		{
			// The hour's content allows four issues a minute. Their workers run at the same time.
			"the hour's content", 40,
			[]playedRepo{
				{name: "acme/widgets", issues: 600, agent: agentTakes},
				{name: short, issues: 5, agent: 20 * time.Minute, after: 45 * time.Minute},
			},
			100 * time.Minute, 45 * time.Minute,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.run > time.Hour && os.Getenv("RETAKE_NIGHTLY") == "" {
				t.Skip("RETAKE_NIGHTLY=1 runs it")
			}
			records := openJournal(t)
			synctest.Test(t, func(t *testing.T) {
				f := newPlayedFleet(t, records, row.repos...)
				c := f.inForce.Load().Config
				c.Director.MaxWorkers = row.workers
				f.configure(c)
				f.run(row.run)
				last, n := time.Duration(0), 0
				for i, k := range f.order {
					if k.Repo() == short {
						last, n = f.done[i]-row.repos[1].after, n+1
					}
				}
				t.Logf("%d of %d deliveries are of the short queue, the last %s after its labels", n, len(f.order),
					last)
				if n != row.repos[1].issues || last > row.within {
					t.Errorf("%d issues of the short queue are delivered, the last after %s, want %d within %s",
						n, last, row.repos[1].issues, row.within)
				}
			})
		})
	}
}
