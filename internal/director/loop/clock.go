package loop

import (
	"sync/atomic"
	"time"
)

// lateAfter is how long the owner may be away before that counts as a gap. It takes a turn at least once a second.
const lateAfter = 5 * time.Second

// Clock gives the time of events. It begins where it is told to, mostly at wall time, and never goes back. It
// ignores a step of the wall clock backwards; it follows a step forwards, and reports it as a gap: usually the
// machine was suspended, and the monotonic clock stood still. It need not show wall time, since a director that
// takes over goes on with the time of the one before.
type Clock struct {
	start  time.Time    // has a monotonic reading
	base   time.Time    // the time then
	offset atomic.Int64 // nanoseconds by which the wall clock ran ahead since start
	later  atomic.Int64 // nanoseconds by which the time had to begin later
	last   time.Time
}

// NewClock returns a clock that begins at a time.
func NewClock(at time.Time) *Clock {
	at = at.Round(0).UTC()
	return &Clock{start: time.Now(), base: at, last: at}
}

// Now returns the time. Any goroutine may call it.
func (c *Clock) Now() time.Time {
	return c.base.Add(time.Since(c.start) + time.Duration(c.offset.Load()+c.later.Load()))
}

// AtLeast moves the time on to t, unless it is later already: a machine does not decide in its past, and would stand
// still until then. It is for the time before the owner runs.
func (c *Clock) AtLeast(t time.Time) {
	c.later.Add(max(0, int64(t.Sub(c.Now()))))
	c.Restart()
}

// Restart forgets how long it took until the owner began to listen.
func (c *Clock) Restart() { c.last = c.Now() }

// tick returns the time, and for how long the owner could not listen; 0 if it could. Only the owner calls it.
func (c *Clock) tick() (at time.Time, gap time.Duration) {
	at = c.Now()
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
