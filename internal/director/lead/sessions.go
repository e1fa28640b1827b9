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

// Ended is the result of a session.
type Ended struct {
	Began bool   // the session had started, so its configuration was right
	Last  uint64 // journal sequence reached by the session's machine
	Err   error
}

// Sessions runs the sessions of a director.
type Sessions struct {
	Run    func(context.Context, *Term) Ended         // runs one session
	Wrote  func(ctx context.Context, seq uint64) bool // reports whether this process wrote the journal's batch at seq
	Reopen func(ctx context.Context) error            // reopens the bus
	Say    func(error)                                // tells people why no session is running
	Log    *zap.Logger

	started bool // a session has started, so later failures are not configuration errors
}

// lateAppends counts appends by the previous leader that arrive late. After each one, the director must reread the
// journal. Only a few can occur in a row, so a higher count means that another director is writing without the lease.
type lateAppends int

const (
	lateAppendsMost = 3
	lateAppendsFor  = time.Minute // a session at least this long resets the count
)

// another counts a late append after a session of the given length. It reports whether the count is still within the
// limit.
func (l *lateAppends) another(lasted time.Duration) bool {
	if lasted >= lateAppendsFor {
		*l = 0
	}
	*l++
	return *l <= lateAppendsMost
}

// Lead runs one session after another until the term ends. Until a session of this process has started, Lead returns a
// session's error instead of retrying, because the configuration is probably wrong. After a takeover, Lead always
// retries transient errors.
func (s *Sessions) Lead(t *Term) error {
	ctx, late, again := t.ctx, lateAppends(0), failure.Pauses(pauseFirst, pauseMost)
	for {
		began := time.Now()
		end := s.Run(ctx, t)
		err := end.Err
		s.started = s.started || end.Began
		if !t.Leads() {
			t.end(loop.ErrLeaseLost) // another leader's decisions may arrive before the lease expires here
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
		s.Log.Error("session ended; reading the journal again", zap.Error(err), zap.Duration("in", pause))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		if busFailed(err) && s.Reopen(ctx) != nil {
			return nil //nolint:nilerr // only the end of ctx leads here
		}
	}
}

// ends reports whether a session's error ends the term.
func (s *Sessions) ends(t *Term, err error) bool {
	switch {
	case errors.Is(err, loop.ErrAnotherDirector), errors.Is(err, bus.ErrDamaged), errors.Is(err, failure.ErrForGood):
		return true
	}
	return !s.started && (!t.takeover || !failure.Of(err).Transient)
}

// busFailed reports whether reopening the bus may fix the error that ended a session. A server that once failed to
// write refuses all later writes, and a removed stream is created again only when the bus is opened.
func busFailed(err error) bool {
	return errors.Is(err, loop.ErrReload) || errors.Is(err, failure.ErrBus)
}
