package director

import (
	"sync/atomic"
	"time"
)

// lateAfter is how long the owner may be away before that counts as a gap. It takes a turn at least once a second.
const lateAfter = 5 * time.Second

// clock gives the time of events: it begins where it is told to, mostly at wall time, and never goes back. A
// step of the wall clock backwards is ignored; a step forwards (usually a suspended machine, during which the
// monotonic clock stands still) is followed and reported as a gap. It need not show wall time: a director that
// takes over goes on with the time of the one before, whose clock may be another.
type clock struct {
	start  time.Time    // has a monotonic reading
	base   time.Time    // the time then
	offset atomic.Int64 // nanoseconds by which the wall clock ran ahead since start
	later  atomic.Int64 // nanoseconds by which the time had to begin later
	last   time.Time
}

func newClock(at time.Time) *clock {
	at = at.Round(0).UTC()
	return &clock{start: time.Now(), base: at, last: at}
}

// peek returns the same time to anybody, at any moment.
func (c *clock) peek() time.Time {
	return c.base.Add(time.Since(c.start) + time.Duration(c.offset.Load()+c.later.Load()))
}

// atLeast makes the time go on from there, if it has not come so far: a machine does not decide in its past,
// and would stand still until then. It is for the time before the owner begins.
func (c *clock) atLeast(t time.Time) {
	c.later.Add(max(0, int64(t.Sub(c.peek()))))
	c.restart()
}

// restart forgets the time before the owner began to listen.
func (c *clock) restart() { c.last = c.peek() }

// now is the owner's: it returns the time, and for how long the owner could not listen (0: it could).
func (c *clock) now() (at time.Time, gap time.Duration) {
	at = c.peek()
	if ahead := time.Now().Round(0).Sub(c.start.Round(0)) - at.Sub(c.base) +
		time.Duration(c.later.Load()); ahead > 2*time.Second {
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
