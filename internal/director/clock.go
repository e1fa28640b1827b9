package director

import (
	"sync/atomic"
	"time"
)

// lateAfter is how long the owner may be away before that counts as a gap. It takes a turn at least once a second.
const lateAfter = 5 * time.Second

// clock gives the time of events: wall time that never goes back. A step of the wall clock backwards is ignored; a
// step forwards (usually a suspended machine, during which the monotonic clock stands still) is followed and reported as a gap.
type clock struct {
	start  time.Time    // has a monotonic reading
	offset atomic.Int64 // nanoseconds by which the wall clock ran ahead since start
	last   time.Time
}

func newClock() *clock {
	now := time.Now()
	return &clock{start: now, last: now.Round(0)}
}

// peek returns the same time to anybody, at any moment.
func (c *clock) peek() time.Time {
	return c.start.Round(0).Add(time.Since(c.start) + time.Duration(c.offset.Load())).UTC()
}

// restart forgets the time before the owner began to listen.
func (c *clock) restart() { c.last = c.peek() }

// now is the owner's: it returns the time, and for how long the owner could not listen (0: it could).
func (c *clock) now() (at time.Time, gap time.Duration) {
	at = c.peek()
	if ahead := time.Now().Round(0).Sub(at); ahead > 2*time.Second {
		c.offset.Add(int64(ahead))
		at = at.Add(ahead)
		gap = ahead
	}
	if away := at.Sub(c.last); away > lateAfter {
		gap = max(gap, away)
	}
	c.last = at
	return at, gap
}
