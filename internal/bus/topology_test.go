package bus

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// interrupted is a JetStream of a director that is held up, once, right before it makes or changes the stream
// of its journal.
type interrupted struct {
	jetstream.JetStream
	name string
	done *atomic.Bool
	by   func()
}

func (i interrupted) first(c jetstream.StreamConfig) {
	if c.Name == i.name && i.done.CompareAndSwap(false, true) {
		i.by()
	}
}

func (i interrupted) CreateOrUpdateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	i.first(c)
	return i.JetStream.CreateOrUpdateStream(ctx, c)
}

func (i interrupted) CreateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	i.first(c)
	return i.JetStream.CreateStream(ctx, c)
}

func (i interrupted) UpdateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	i.first(c)
	return i.JetStream.UpdateStream(ctx, c)
}

func (j *joiner) interruptedBy(by func()) *atomic.Bool {
	done := &atomic.Bool{}
	j.ownJS = interrupted{j.ownJS, j.journalStream(), done, by}
	return done
}

func (j *joiner) idThere() string {
	j.t.Helper()
	s, err := j.ownJS.Stream(ctxFor(j.t), j.journalStream())
	mustDo(j.t, err)
	return identityIn(s.CachedInfo().Config).id
}

// A server that was wiped has the journal that another director has begun there meanwhile: who comes back with
// the id of the one before leaves that one its own.
func TestAJournalKeepsItsID(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	one := out.joiner()
	appendBatches(t, one.Journal(), 3)
	before := one.idThere()
	mustDo(t, one.ownJS.DeleteStream(ctxFor(t), one.journalStream()))
	var other *joiner
	done := one.interruptedBy(func() { // it found no journal
		other = out.joiner()
		appendBatches(t, other.Journal(), 1)
	})
	if err := one.Ensure(ctxFor(t)); err != nil || !done.Load() {
		t.Fatal(err)
	}
	if id := other.idThere(); id == before || id != other.Journal().identity.id || id != one.Journal().identity.id {
		t.Errorf("the journal is %s by now; it was begun as %s, and the one before was %s", id,
			other.Journal().identity.id, before)
	}
	if _, _, err := one.read(Head{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("what it knew is gone: %v", err)
	}
	other.mustRead(Head{}, 1)
}

// The stream of a journal is not written to by who finds it as it should be.
func TestAJournalThatIsThereIsNotTouched(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	one := out.joiner()
	done := one.interruptedBy(func() {})
	mustDo(t, one.Ensure(ctxFor(t)))
	if done.Load() {
		t.Error("it is written though nothing is to be changed")
	}
	one.options.JournalBytes *= 2
	mustDo(t, one.Ensure(ctxFor(t)))
	if s, err := one.ownJS.Stream(ctxFor(t), one.journalStream()); err != nil ||
		s.CachedInfo().Config.MaxBytes != one.options.JournalBytes || !done.Load() {
		t.Errorf("another bound of its size is not made: %v", err)
	}
}

// A director that changes a stream's limits while another journal replaces it notices, and does not adopt that
// journal.
func TestAChangeThatMeetsAnotherJournalIsNoticed(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	one := out.joiner()
	one.options.JournalBytes *= 2
	done := one.interruptedBy(func() {
		mustDo(t, one.ownJS.DeleteStream(ctxFor(t), one.journalStream()))
		appendBatches(t, out.joiner().Journal(), 1)
	})
	if err := one.Ensure(ctxFor(t)); !errors.Is(err, ErrReplaced) || !done.Load() {
		t.Errorf("nothing is noticed: %v", err)
	}
	mustDo(t, one.Ensure(ctxFor(t))) // it looks again
	one.mustRead(Head{}, 1)
}
