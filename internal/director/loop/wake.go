package loop

import (
	"context"
	"time"
)

// WakeDelay is the pause before Await returns after a signal. It gives the source of the signal, such as GitHub, time
// to show the change.
const WakeDelay = time.Second

// Wake wakes a single loop. Signals before the next Await coalesce.
type Wake chan struct{}

// NewWake returns a Wake without a pending signal.
func NewWake() Wake { return make(Wake, 1) }

// Signal wakes the loop. It never blocks.
func (w Wake) Signal() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// Await waits for a signal, and returns false if none arrives within most, or if ctx ends first. If mayWake is false,
// it ignores signals. After a signal it waits for WakeDelay or most, whichever is shorter, and returns true. Signals
// during that delay wake the next Await.
func (w Wake) Await(ctx context.Context, most time.Duration, mayWake bool) (woken bool) {
	signal := w
	if !mayWake {
		signal = nil
	}
	select {
	case <-time.After(most):
		return false
	case <-ctx.Done():
		return false
	case <-signal:
	}
	select {
	case <-time.After(min(most, WakeDelay)):
	case <-ctx.Done():
	}
	return true
}
