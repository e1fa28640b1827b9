package loop

import (
	"context"
	"time"
)

// RingRest is the pause between a ring and the wake-up. It lets further rings coalesce, and gives a source that lags
// behind time to catch up.
const RingRest = time.Second

// Bell wakes one loop. Rings coalesce until the loop wakes.
type Bell chan struct{}

// NewBell returns a bell that has not been rung.
func NewBell() Bell { return make(Bell, 1) }

// Ring wakes the loop. It never blocks.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Await returns false after most, or when ctx is done. If mayRing is set, it returns true shortly after a ring. Further
// rings during that pause share the same poll.
func (b Bell) Await(ctx context.Context, most time.Duration, mayRing bool) (rang bool) {
	ring := b
	if !mayRing {
		ring = nil
	}
	select {
	case <-time.After(most):
		return false
	case <-ctx.Done():
		return false
	case <-ring:
	}
	select {
	case <-time.After(min(most, RingRest)):
	case <-ctx.Done():
	}
	return true
}
