package lead

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/container"
	"retake/internal/director/failure"
	"retake/internal/director/loop"
)

// Rare late appends never end a director. Several in a row do.
func TestLateAppendsAreCountedInARow(t *testing.T) {
	var l lateAppends
	for n := range 2 * lateAppendsMost {
		if !l.another(time.Hour) {
			t.Errorf("a late append ends the director after %d in months", n+1)
		}
	}
	for range lateAppendsMost - 1 {
		if !l.another(time.Second) {
			t.Error("a few late appends in a row end the director")
		}
	}
	if l.another(time.Second) {
		t.Error("many late appends in a row do not end the director")
	}
}

// A process that was suspended finds another director's decisions before it knows that its term is over. The term
// then ends as expired, so that the process stands by again.
func TestAnothersDecisionsEndAnExpiredTerm(t *testing.T) {
	over := newTerm(t.Context())
	over.lease = &bus.Lease{} // its time is over
	s := &Sessions{
		Run:   func(context.Context, *Term) Ended { return Ended{Began: true, Err: loop.ErrAnotherDirector} },
		Wrote: func(context.Context, uint64) bool { return false }, Log: zap.NewNop(),
	}
	if err := s.Lead(over); !errors.Is(err, loop.ErrAnotherDirector) || !over.Expired() {
		t.Errorf("ended with %v; expired: %t", err, over.Expired())
	}
}

// Before the first session, a failure ends the term, because the configuration is probably wrong. After a takeover, a
// transient failure does not.
func TestWhichErrorsEndATerm(t *testing.T) {
	passing := errors.New("for a moment")
	for _, c := range []struct {
		started, takeover bool
		err               error
		ends              bool
	}{
		{false, false, passing, true},
		{false, true, passing, false},
		{true, false, passing, false},
		{true, true, bus.ErrDamaged, true},
		{true, true, failure.ErrForGood, true},
		{false, true, &container.Error{Kind: container.ErrSpec, Cause: passing}, true},
	} {
		s := &Sessions{started: c.started}
		if ends := s.ends(&Term{takeover: c.takeover}, c.err); ends != c.ends {
			t.Errorf("%+v: ends: %t", c, ends)
		}
	}
}
