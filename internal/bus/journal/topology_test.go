package journal

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"retake/internal/bus/chain"
)

// interrupted is the JetStream of a director that is delayed, once, right before it creates or changes the stream of
// its journal.
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

func (j *director) interruptedBy(by func()) *atomic.Bool {
	done := &atomic.Bool{}
	j.o.JS = interrupted{j.o.JS, j.o.stream(), done, by}
	return done
}

// again opens the journal again, as after an outage.
func (j *director) again() error {
	j.t.Helper()
	next, err := j.Reopen(ctxFor(j.t), j.o)
	if err == nil {
		j.Journal = next
	}
	return err
}

func (j *director) idThere() string {
	j.t.Helper()
	s, err := j.o.JS.Stream(ctxFor(j.t), j.o.stream())
	mustDo(j.t, err)
	return identityIn(s.CachedInfo().Config).id
}

// After a server was wiped, another director may have started a new journal there. A director that returns with the old
// id does not change the new journal.
func TestAJournalKeepsItsID(t *testing.T) {
	t.Parallel()
	one := begun(t)
	one.more(3)
	before := one.idThere()
	mustDo(t, one.o.JS.DeleteStream(ctxFor(t), one.o.stream()))
	var other *director
	done := one.interruptedBy(func() { // after it found that there was no journal
		other = one.beside()
		other.more(1)
	})
	if err := one.again(); err != nil || !done.Load() {
		t.Fatal(err)
	}
	if id := other.idThere(); id == before || id != other.ID() || id != one.ID() {
		t.Errorf("the journal is now %s; it started as %s, and its predecessor was %s", id,
			other.ID(), before)
	}
	if _, _, err := one.read(chain.Head{}); !errors.Is(err, chain.ErrDamaged) {
		t.Errorf("it accepts a new journal: %v", err)
	}
	other.mustRead(chain.Head{}, 1)
}

// A director does not touch a journal's stream if its settings are already correct.
func TestAJournalThatIsThereIsNotTouched(t *testing.T) {
	t.Parallel()
	one := begun(t)
	done := one.interruptedBy(func() {})
	mustDo(t, one.again())
	if done.Load() {
		t.Error("a read-only journal is written")
	}
	one.o.Bytes *= 2
	mustDo(t, one.again())
	if s, err := one.o.JS.Stream(ctxFor(t), one.o.stream()); err != nil ||
		s.CachedInfo().Config.MaxBytes != one.o.Bytes || !done.Load() {
		t.Errorf("another bound of its size is not made: %v", err)
	}
}

// If another journal takes the place of a stream while a director changes the stream's limits, the director notices
// and does not adopt that journal.
func TestAChangeThatMeetsAnotherJournalIsNoticed(t *testing.T) {
	t.Parallel()
	one := begun(t)
	one.o.Bytes *= 2
	done := one.interruptedBy(func() {
		mustDo(t, one.o.JS.DeleteStream(ctxFor(t), one.o.stream()))
		one.beside().more(1)
	})
	if err := one.again(); !errors.Is(err, ErrReplaced) || !done.Load() {
		t.Errorf("nothing is noticed: %v", err)
	}
	mustDo(t, one.again())
	one.mustRead(chain.Head{}, 1)
}
