package lead

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/director/failure"
	"retake/internal/director/loop"
)

// Pauses after a failed session. They double until a session begins.
const (
	pauseFirst = 2 * time.Second
	pauseMost  = 15 * time.Second
)

// Ended is the end of a session.
type Ended struct {
	Began bool   // the session had started, so its configuration was right
	Last  uint64 // the journal's sequence that its machine had reached
	Err   error
}

// Sessions runs the sessions of a director.
type Sessions struct {
	Run    func(context.Context, *Term) Ended         // one session
	Wrote  func(ctx context.Context, seq uint64) bool // reports whether this process wrote a batch of the journal
	Reopen func(ctx context.Context) error            // opens the bus again
	Say    func(error)                                // shows people why no session runs
	Log    *zap.Logger

	works bool // a session has started, so later failures are not configuration errors
}

// lateAppends counts late appends by the previous leader. Each one forces the director to read the journal again, and
// only a few can follow each other. If there are more, another director writes without holding the lease.
type lateAppends int

const (
	lateAppendsMost = 3
	lateAppendsFor  = time.Minute // after a session of this length, counting starts again
)

// another counts one late append after a session of the given length. It reports whether that is still within the
// limit.
func (l *lateAppends) another(lasted time.Duration) bool {
	if lasted >= lateAppendsFor {
		*l = 0
	}
	*l++
	return *l <= lateAppendsMost
}

// Lead runs one session after another until the term ends. If the very first session of the process cannot begin,
// Lead returns its error, because the configuration is probably wrong. A director that took over retries failures
// that can heal.
func (s *Sessions) Lead(t *Term) error {
	ctx, late, again := t.ctx, lateAppends(0), failure.Pauses(pauseFirst, pauseMost)
	for {
		began := time.Now()
		end := s.Run(ctx, t)
		err := end.Err
		s.works = s.works || end.Began
		if !t.Leads() {
			t.end(loop.ErrLeaseLost) // this process may notice first, from another leader's decisions in the journal
		}
		if errors.Is(err, loop.ErrAnotherDirector) && s.Wrote(ctx, end.Last+1) {
			err = loop.ErrReload // a late append by an earlier session of this process
		}
		if errors.Is(err, loop.ErrAnotherDirector) && t.lease != nil && t.Leads() && late.another(time.Since(began)) {
			err = loop.ErrReload
		}
		if err == nil || ctx.Err() != nil || s.ends(t, err) {
			return err
		}
		if end.Began {
			again.Reset()
		}
		pause := again.NextBackOff()
		s.Say(err)
		s.Log.Error("session ended; rereading the journal", zap.Error(err), zap.Duration("in", pause))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		if busFailed(err) && s.Reopen(ctx) != nil {
			return nil //nolint:nilerr // ctx is done: nothing else ends it
		}
	}
}

// ends reports whether the error of a session ends the term.
func (s *Sessions) ends(t *Term, err error) bool {
	switch {
	case errors.Is(err, loop.ErrAnotherDirector), errors.Is(err, bus.ErrDamaged), errors.Is(err, failure.ErrForGood):
		return true
	}
	return !s.works && (!t.takeover || !failure.Of(err).Transient)
}

// busFailed reports whether opening the bus again can fix the error that ended a session. A server that once failed
// to write refuses every later write, and a removed stream is recreated only when the bus is opened.
func busFailed(err error) bool {
	return errors.Is(err, loop.ErrReload) || errors.Is(err, failure.ErrBus)
}
