package failure

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"

	"retake/internal/fsm"
)

// Pauses are those between two tries: they double from the first to the longest.
func Pauses(first, most time.Duration) *backoff.ExponentialBackOff {
	p := backoff.NewExponentialBackOff()
	p.InitialInterval, p.MaxInterval, p.Multiplier, p.RandomizationFactor = first, most, 2, 0
	return p
}

// Retry calls do until it works, returns a backoff.Permanent error, ctx ends, or another pause would exceed the
// patience; a patience of 0 has no bound.
func Retry(ctx context.Context, pauses backoff.BackOff, patience time.Duration, do func() error,
	waits backoff.Notify,
) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, do() },
		backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(patience), backoff.WithNotify(waits))
	return err
}

// RetryTransient calls try until it works or cannot work. It is for effects whose lane nothing else waits for,
// and which nobody would ask for again. The pause between two tries is at least what pause returns.
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
			return fsm.EffectEnded{}
		}
	}
}
