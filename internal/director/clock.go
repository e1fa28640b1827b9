package director

import (
	"sync/atomic"
	"time"
)

// lateAfter is how long the owner may be away before it says so. It is turned at least once a second.
const lateAfter = 5 * time.Second

// clock gives the time of events: wall time that never goes back. A step of the wall clock backwards is ignored; a
// step forwards (usually a suspended machine, during which the monotonic clock stands still) is followed and told.
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

// here says that the owner listens from now on.
func (c *clock) here() { c.last = c.peek() }

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
