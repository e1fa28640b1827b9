package intake

import (
	"context"
	"time"
)

// Pauses after a bell has rung.
const (
	wakeRest   = time.Second      // until the look: more rings may come, and GitHub's lists lag behind
	SecondLook = 10 * time.Second // after the first look, in case they lagged for longer
)

// Bell wakes one loop. Rings that come before the loop wakes coalesce.
type Bell chan struct{}

// NewBell returns a bell that nobody has rung.
func NewBell() Bell { return make(Bell, 1) }

// Ring wakes the loop. It never blocks.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Await returns after most, or, if mayRing, a moment after a ring: rings within that moment share one look.
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
	case <-time.After(min(most, wakeRest)):
	case <-ctx.Done():
	}
	return true
}
