package patience

import (
	"context"
	"sync"
	"time"
)

// T is the part of testing.TB that the helpers for tests use.
type T interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// pollEvery is the interval at which Wait checks its condition.
const pollEvery = 5 * time.Millisecond

// A deadline measures the machine's speed fifty times, at intervals within these bounds.
const (
	shortestStep = 10 * time.Millisecond
	longestStep  = 500 * time.Millisecond
)

// For returns d scaled to the machine's present speed. Use it where only a duration can be passed. WithTimeout also
// adapts to later changes.
func For(d time.Duration) time.Duration { return time.Duration(float64(d) * Busy()) }

// WithTimeout returns a context that ends after d on an idle machine, and later on a busy one. Its cause is
// context.DeadlineExceeded. It has no Deadline, because the time cannot be known in advance. The caller must call
// cancel.
func WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return WithTimeoutCause(parent, d, context.DeadlineExceeded)
}

// WithTimeoutCause is like WithTimeout, with another cause.
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

// spend waits until an idle machine would have spent d. It returns false if ctx is done before that.
func spend(ctx context.Context, d time.Duration) bool {
	step := min(max(d/50, shortestStep), longestStep)
	for left := d; left > 0; {
		next := min(left, step)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(next):
		}
		// Subtract one step even if the timer fired late, because the process was waiting for a CPU.
		left -= max(time.Duration(float64(next)/Busy()), 1)
	}
	return true
}

// Context is like WithTimeout, for a context that also ends with the test.
func Context(t T, d time.Duration) context.Context {
	ctx, cancel := WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Wait blocks until done returns true. It fails the test with the text what if that takes longer than d on an idle
// machine.
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
			t.Fatalf("timed out after %v of an idle machine: %s", d, what)
		}
	}
}

// Receive returns the next value of from. It fails the test with the text what if that takes longer than d on an idle
// machine. A closed channel yields its zero value.
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
		t.Fatalf("timed out after %v of an idle machine: %s", d, what)
		panic("unreachable")
	}
}
