package testbed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"retake/internal/director/operator"
	"retake/internal/patience"
)

// Await calls is repeatedly until it returns true. After most has passed, or later on a busy machine, Await gives up
// and returns an error that contains what.
func Await(ctx context.Context, most time.Duration, what string, is func() bool) error {
	late := fmt.Errorf("testbed: not reached within %v: %s", most, what)
	ctx, cancel := patience.WithTimeoutCause(ctx, most, late)
	defer cancel()
	for !is() {
		if err := Pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// Pause waits for d. If ctx is done first, it returns the cause.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Well returns an error unless the director of a data directory reports that it is healthy.
func Well(ctx context.Context, dataDir string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	h, err := operator.AskHealth(ctx, dataDir)
	if err == nil && !h.OK {
		err = errors.New(h.String())
	}
	return err
}
