package patience

import (
	"context"
	"sync"
	"time"
)

// T is the part of testing.TB that the test helpers use.
type T interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// pollEvery is the interval at which Wait checks its condition.
const pollEvery = 5 * time.Millisecond

// A deadline measures the machine's speed about fifty times, at intervals between these limits.
const (
	shortestStep = 10 * time.Millisecond
	longestStep  = 500 * time.Millisecond
)

// For returns d, extended by the machine's current slowness, for callers that need a duration. Unlike For, WithTimeout
// also adapts to later changes in speed.
func For(d time.Duration) time.Duration { return time.Duration(float64(d) * Busy()) }

// WithTimeout returns a context that ends after d on an idle machine, and later on a busy one. Its cause is
// context.DeadlineExceeded. The context has no Deadline, because the machine's future speed is unknown. The caller
// must call cancel.
func WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return WithTimeoutCause(parent, d, context.DeadlineExceeded)
}

// WithTimeoutCause is like WithTimeout, but ends the context with the given cause.
func WithTimeoutCause(parent context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	var wg sync.WaitGroup
	wg.Go(func() {
		if spend(ctx, d) {
			end(cause)
		}
	})
	return ctx, func() {
		end(context.Canceled)
		wg.Wait()
	}
}

// spend waits until d has passed on the deadline's clock. It returns false if ctx ends first.
func spend(ctx context.Context, d time.Duration) bool {
	step := min(max(d/50, shortestStep), longestStep)
	for left := d; left > 0; {
		next := min(left, step)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(next):
		}
		// Subtract only one step even if the timer fired late: the process was then waiting for a CPU.
		left -= max(time.Duration(float64(next)/Busy()), 1)
	}
	return true
}

// Context is like WithTimeout, but the context also ends with the test.
func Context(t T, d time.Duration) context.Context {
	ctx, cancel := WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Wait blocks until done returns true. If that takes longer than d on an idle machine, it fails the test with a message
// that contains what.
func Wait(t T, d time.Duration, what string, done func() bool) {
	t.Helper()
	ctx, cancel := WithTimeout(context.Background(), d)
	defer cancel()
	for !done() {
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			if done() {
				return
			}
			t.Fatalf("timed out after %v of idle-machine time: %s", d, what)
		}
	}
}

// Receive returns the next value from the channel, or its zero value if the channel is closed. If that takes longer
// than d on an idle machine, it fails the test with a message that contains what.
func Receive[V any](t T, d time.Duration, what string, from <-chan V) V {
	t.Helper()
	ctx, cancel := WithTimeout(context.Background(), d)
	defer cancel()
	select {
	case v := <-from:
		return v
	case <-ctx.Done():
	}
	select {
	case v := <-from:
		return v
	default:
		t.Fatalf("timed out after %v of idle-machine time: %s", d, what)
		panic("unreachable")
	}
}
