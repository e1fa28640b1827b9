package github

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestBacklog labels many issues at once, for agents that take half a minute. As in the machine, a finished task gives
// its slot back before it is delivered, and finished work bounds claims. The rate must approach the bound that
// GitHub's limits set.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backlog{load: newLoad(t, 1100, plainly)}
		b.run(4 * time.Hour)
		b.compare(4)
		if n := b.sim.Throttled(); n > 0 || b.refused > 0 || b.sim.Violations() > 0 {
			t.Errorf("%d requests met a limit, %d were sent during one", n, b.sim.Violations())
		}
	})
}

// backlog is a load whose deliveries do not hold a slot.
type backlog struct {
	*load
	mu                sync.Mutex
	running, finished int
	done, waits       []time.Duration // of the deliveries: since the labels, and since the agent ended
	requests          int
}

// run claims and delivers issues until the time is over.
func (b *backlog) run(span time.Duration) {
	const workers, agent = 40, 30 * time.Second
	ctx := b.Context()
	var all sync.WaitGroup
	for i := 0; time.Since(b.began) < span && i < len(b.keys); {
		b.mu.Lock()
		free := b.running < workers && b.finished < workers
		if free {
			b.running++
		}
		b.mu.Unlock()
		if !free {
			time.Sleep(time.Second)
			continue
		}
		issue := i
		i++
		all.Go(func() {
			b.claim(ctx, issue)
			time.Sleep(agent)
			b.count(-1, 1)
			ended := time.Now()
			b.deliver(ctx, issue)
			b.count(0, -1)
			b.mu.Lock()
			defer b.mu.Unlock()
			b.done, b.waits = append(b.done, time.Since(b.began)), append(b.waits, time.Since(ended))
		})
	}
	all.Wait()
	b.requests = len(b.sim.Requests()) - b.before
}

func (b *backlog) count(running, finished int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running += running
	b.finished += finished
}

// compare measures the rate from minute 60, and compares it with the bound.
func (b *backlog) compare(hours int) {
	const writes, pause = 5, 2 * time.Second // of a task, with its pull request
	within := 0
	for _, at := range b.done {
		if at >= time.Hour && at < time.Duration(hours)*time.Hour {
			within++
		}
	}
	rate, longest := float64(within)/float64(hours-1), slices.Max(b.waits)
	content, pace := 480.0/2, float64(time.Hour)/float64(writes*(pause+latency))
	primary := 5000 / (float64(b.requests) / float64(len(b.done)))
	b.Logf("%d done, the first after %.0f s, %.0f an hour from minute 60. Bounds: %.0f by content, %.0f by the pause, "+
		"%.0f by requests. The longest wait for a delivery is %s.", len(b.done), b.done[0].Seconds(), rate, content,
		pace, primary, longest)
	if bound := min(content, pace, primary); rate < 0.9*bound {
		b.Errorf("%.0f done in an hour, want 0.9 of %.0f", rate, bound)
	}
	if longest > 2*time.Minute {
		b.Errorf("finished work waited for %s", longest)
	}
	if first := b.done[0]; first > time.Minute {
		b.Errorf("the first one is done after %s", first)
	}
}
