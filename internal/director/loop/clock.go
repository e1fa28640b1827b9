package loop

import (
	"sync/atomic"
	"time"
)

// lateAfter returns the longest pause between two turns of the owner that does not count as a gap. It is shorter than
// the heartbeat TTL, because the owner has not read the heartbeats that arrived during the gap.
func lateAfter(heartbeatTTL time.Duration) time.Duration { return min(5*time.Second, heartbeatTTL/2) }

// Clock provides the time of events. It starts at a given time, usually wall time, and never goes back. It ignores
// backward steps of the wall clock. It follows forward steps and reports them as gaps, because they usually mean that
// the machine was suspended, which stops the monotonic clock. After a takeover, Clock may differ from wall time,
// because it continues from the predecessor's time.
type Clock struct {
	start  time.Time    // with a monotonic reading
	base   time.Time    // the clock's time at startup
	offset atomic.Int64 // nanoseconds by which the wall clock ran ahead after start
	later  atomic.Int64 // nanoseconds added by AtLeast
	last   time.Time
}

// NewClock returns a clock that starts at the given time.
func NewClock(at time.Time) *Clock {
	at = at.Round(0).UTC()
	return &Clock{start: time.Now(), base: at, last: at}
}

// Now returns the current time. It is safe for concurrent use.
func (c *Clock) Now() time.Time {
	return c.base.Add(time.Since(c.start) + time.Duration(c.offset.Load()+c.later.Load()))
}

// AtLeast advances the clock to t, unless it is already later. Decisions never go back in time, so the machine would
// otherwise stall until the clock reached t. Call AtLeast before the owner runs.
func (c *Clock) AtLeast(t time.Time) {
	c.later.Add(max(0, int64(t.Sub(c.Now()))))
	c.Restart()
}

// Restart sets the time of the last tick to now, so that a slow start does not count as a gap.
func (c *Clock) Restart() { c.last = c.Now() }

// tick returns the current time, and the time since the last tick as away. gap is the part of away in which the owner
// did not run, usually 0. Only the owner calls tick.
func (c *Clock) tick(lateAfter time.Duration) (at time.Time, away, gap time.Duration) {
	at = c.Now()
	if ahead := time.Now().Round(0).Sub(c.start.Round(0)) - at.Sub(c.base) +
		time.Duration(c.later.Load()); ahead > 2*time.Second {
		c.offset.Add(int64(ahead))
		at = at.Add(ahead)
		gap = ahead
	}
	if away = at.Sub(c.last); away > lateAfter {
		gap = max(gap, away)
	}
	c.last = at
	return at, away, gap
}
