package patience

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a T that records the message of Fatalf instead of failing the test.
type failing struct {
	*testing.T
	said string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(f)
}

// failure returns the message of a test that fails in run, or "" if it passes.
func failure(t *testing.T, run func(T)) (said string) {
	f := &failing{T: t}
	defer func() {
		if r := recover(); r != nil && r != any(f) {
			panic(r)
		}
		said = f.said
	}()
	run(f)
	return ""
}

func TestWaitReturnsAsSoonAsTheConditionHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		Wait(t, time.Hour, "three looks", func() bool { return time.Since(began) >= 2*pollEvery })
		if took := time.Since(began); took != 2*pollEvery {
			t.Errorf("took %v", took)
		}
	})
}

func TestWaitFailsAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		said := failure(t, func(t T) { Wait(t, time.Second, "a miracle", func() bool { return false }) })
		if said != "timed out after 1s of idle-machine time: a miracle" {
			t.Errorf("said %q", said)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		values := make(chan int, 1)
		values <- 7
		if got := Receive(t, time.Second, "a number", values); got != 7 {
			t.Errorf("got %d", got)
		}
		if said := failure(t, func(t T) { Receive(t, time.Second, "another", values) }); said == "" {
			t.Error("an empty channel did not fail the test")
		}
	})
}

func TestWithTimeoutSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := WithTimeout(t.Context(), time.Minute)
		defer cancel()
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("cause: %v", cause)
		}
		ctx, cancel = WithTimeout(t.Context(), time.Minute)
		cancel()
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			t.Errorf("cause after cancel: %v", cause)
		}
	})
}

func TestBusyIsBounded(t *testing.T) {
	if b := Busy(); b < 1 || b > limit {
		t.Errorf("busy: %v", b)
	}
	synctest.Test(t, func(t *testing.T) {
		if b := Busy(); b != 1 {
			t.Errorf("busy by a virtual clock: %v", b)
		}
	})
	if d := For(time.Second); d < time.Second || d > limit*time.Second {
		t.Errorf("one second became %v", d)
	}
}
