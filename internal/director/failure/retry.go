package failure

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"

	"retake/internal/fsm"
)

// Pauses returns a backoff that starts at first and doubles up to most.
func Pauses(first, most time.Duration) *backoff.ExponentialBackOff {
	p := backoff.NewExponentialBackOff()
	p.InitialInterval, p.MaxInterval, p.Multiplier, p.RandomizationFactor = first, most, 2, 0
	return p
}

// Retry calls do until it succeeds or returns a backoff.Permanent error, ctx is done, or the next pause would exceed
// patience. A patience of 0 means no limit. Retry calls waits before each pause.
func Retry(ctx context.Context, pauses backoff.BackOff, patience time.Duration, do func() error,
	waits backoff.Notify,
) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, do() },
		backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(patience), backoff.WithNotify(waits))
	return err
}

// RetryTransient calls try until it succeeds or fails permanently, and waits at least pause() between two calls. When
// ctx is done, it returns the last failure. Use it for soft effects that must not be lost, because the machine does not
// retry a soft effect and other effects of the task do not wait for it.
func RetryTransient(ctx context.Context, pause func() time.Duration, try func() error) fsm.EffectEnded {
	for {
		err := try()
		if err == nil {
			return fsm.EffectEnded{}
		}
		f := Of(err)
		if !f.Transient {
			return fsm.EffectEnded{Failure: f}
		}
		select {
		case <-time.After(max(time.Until(f.Until), pause())):
		case <-ctx.Done():
			return fsm.EffectEnded{Failure: f}
		}
	}
}
