package budget

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// twin checks the invariants of a pool from the requests and answers, without knowledge of its algorithm.
type twin struct {
	limits  Limits
	held    map[string]Lease
	failed  map[string]bool
	granted time.Time
	closed  time.Time
	careful bool
}

func (w *twin) grant(t *rapid.T, now time.Time, g Grant, worker string) {
	live := 0
	for _, l := range w.held {
		if l.Until.After(now) {
			live++
		}
	}
	switch {
	case live >= w.limits.MaxConcurrent:
		t.Fatalf("%d leases are held already", live)
	case w.careful && live > 0:
		t.Fatalf("not alone after a cooldown")
	case !w.granted.IsZero() && now.Sub(w.granted) < w.limits.Spacing:
		t.Fatalf("%v after the last grant", now.Sub(w.granted))
	case now.Before(w.closed):
		t.Fatalf("granted in a cooldown")
	case w.held[g.ID].ID != "":
		t.Fatalf("%s was granted before", g.ID)
	}
	w.granted = now
	w.held[g.ID] = Lease{ID: g.ID, Worker: worker, Until: now.Add(g.Lease)}
}

// TestLimitsAreNeverExceeded simulates workers that request, report, release and drop leases at random times.
func TestLimitsAreNeverExceeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{
			MaxConcurrent: rapid.IntRange(1, 4).Draw(t, "concurrent"), Lease: 20 * time.Second,
			Cooldown: 5 * time.Second,
			Spacing:  time.Duration(rapid.IntRange(0, 3).Draw(t, "spacing")) * time.Second,
		}
		p, w := New("e", limits), &twin{limits: limits, held: map[string]Lease{}, failed: map[string]bool{}}
		now := t0
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms")) * time.Millisecond)
			worker := fmt.Sprint("w", rapid.IntRange(0, 4).Draw(t, "worker"))
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1, 2:
				if g := p.Acquire(now, model, worker); g.ID != "" {
					w.grant(t, now, g, worker)
				} else if g.Wait <= 0 || g.Why == "" {
					t.Fatalf("the answer lacks a lease and a wait: %+v", g)
				}
			case 3:
				if l := w.one(t); l.ID != "" {
					p.Release(now, l.ID, l.Worker)
					if l.Until.After(now) && !w.failed[l.ID] {
						w.careful = false
					}
					w.end(l.ID, now)
				}
			case 4:
				if l := w.one(t); l.ID != "" {
					w.report(t, p, now, l)
				}
			case 5:
				p.Drop(now, worker)
				for id, l := range w.held {
					if l.Worker == worker {
						w.end(id, now)
					}
				}
			}
		}
	})
}

func (w *twin) end(id string, now time.Time) {
	l := w.held[id]
	if l.Until.After(now) {
		l.Until = now
		w.held[id] = l
	}
}

// one draws a lease from all leases so far.
func (w *twin) one(t *rapid.T) Lease {
	if len(w.held) == 0 {
		return Lease{}
	}
	return w.held[fmt.Sprintf("e.%d", rapid.IntRange(1, len(w.held)).Draw(t, "lease"))]
}

func (w *twin) report(t *rapid.T, p *Pool, now time.Time, l Lease) {
	after := time.Duration(rapid.IntRange(0, 20).Draw(t, "after")) * time.Second
	if rapid.Bool().Draw(t, "well") {
		p.Report(now, l.ID, l.Worker, OK, 0)
		if l.Until.After(now) {
			w.careful, w.failed[l.ID] = false, false
		}
		return
	}
	c := p.Report(now, l.ID, l.Worker, RateLimited, after)
	if !l.Until.After(now) {
		if c != nil {
			t.Fatalf("a lease that is over closed the resource")
		}
		return
	}
	w.failed[l.ID] = true
	if after == 0 {
		after = w.limits.Cooldown
	}
	if until := now.Add(after); until.After(w.closed) {
		if c == nil || c.Until != until {
			t.Fatalf("want a cooldown until %v, got %+v", until, c)
		}
		w.closed, w.careful = until, true
	}
}

// TestFirstComeFirstServed uses one lease at a time. Workers that return in time are served in order of arrival.
func TestFirstComeFirstServed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := New("e", Limits{Spacing: time.Duration(rapid.IntRange(0, 2000).Draw(t, "spacing")) * time.Millisecond})
		type asker struct {
			name string
			next time.Time
		}
		var queue []asker // sorted by arrival
		var order []string
		now := t0
		for i := range rapid.IntRange(1, 12).Draw(t, "workers") {
			queue = append(queue, asker{fmt.Sprint("w", i), t0.Add(time.Duration(i) * time.Millisecond)})
		}
		type release struct {
			id, worker string
			at         time.Time
		}
		var held *release
		for len(queue) > 0 {
			if now.Sub(t0) > 5*time.Minute {
				t.Fatalf("%d workers still wait", len(queue))
			}
			now = now.Add(time.Millisecond)
			if held != nil && !now.Before(held.at) {
				p.Release(now, held.id, held.worker)
				held = nil
			}
			for i := 0; i < len(queue); i++ {
				if now.Before(queue[i].next) {
					continue
				}
				g := p.Acquire(now, model, queue[i].name)
				if g.ID == "" {
					late := time.Duration(rapid.IntRange(0, 4000).Draw(t, "late")) * time.Millisecond
					queue[i].next = now.Add(g.Wait + late)
					continue
				}
				order = append(order, queue[i].name)
				held = &release{
					g.ID, queue[i].name,
					now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "takes")) * time.Millisecond),
				}
				queue = append(queue[:i], queue[i+1:]...)
				break
			}
		}
		for i, name := range order {
			if name != fmt.Sprint("w", i) {
				t.Fatalf("served %q", order)
			}
		}
	})
}
