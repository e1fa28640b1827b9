package view

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/director/failure"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/projection/feed"
	"retake/internal/story"
)

// Model is the read model of a session: whatever people look at, by command, page or report, comes from its book. A
// goroutine follows the journal, so that a look never makes the owner wait.
//
//	journal, to where the session begins ─feed.Journal──▶ follow ──▶ book ◀── read ── commands, page
//	owner, each durable batch ──Apply──▶ queue ─────────▶ follow
//	journal, what the queue had no room for ──feed.After──▶ follow
type Model struct {
	log     *zap.Logger
	journal feed.Source
	config  fsm.Config // follow's own; for others under mu
	begin   uint64     // what the journal had when the session began
	state   []byte     // of the machine then; nil: the book has it. follow's own

	queueMu sync.Mutex
	queue   []decidedBatch // decided since, and not in the book yet; at most queueMost
	newest  uint64         // of all that were decided, in the queue or not; 0: none since the beginning
	decides *fsm.Config    // what decides from now on, instead; nil: the same
	more    chan struct{}  // the queue has something; room for one

	mu      sync.Mutex    // never the owner's
	book    *story.Book   // nil: what was before is still being read
	changed chan struct{} // closed when the book has more
	ended   chan struct{} // closed when nobody follows the journal any more: the session is over
	whole   chan struct{} // one reading of the whole journal at a time; room for one
}

// queueMost bounds what waits for the follower: some minutes of a busy fleet. The rest is read from the journal.
const queueMost = 4096

// The pauses between tries to read what could not be read.
const (
	rereadFirst = 10 * time.Second
	rereadMost  = 10 * time.Minute
)

// decidedBatch waits for the follower.
type decidedBatch struct {
	seq     uint64
	records []fsm.Record
}

// New begins with the machine as it is before it decides anything.
func New(d *fsm.Driver, j feed.Source, config fsm.Config, log *zap.Logger) (*Model, error) {
	state, err := d.Machine().Snapshot()
	if err != nil {
		return nil, err
	}
	return &Model{
		log: log, journal: j, config: config, begin: d.Last(), state: state, more: make(chan struct{}, 1),
		changed: make(chan struct{}), ended: make(chan struct{}), whole: make(chan struct{}, 1),
	}, nil
}

// State is the machine's snapshot when the session began. It is for the time before Follow.
func (v *Model) State() []byte { return v.state }

// Apply implements projection.Projection. It only queues the batch.
func (v *Model) Apply(seq uint64, records []fsm.Record) {
	v.queueMu.Lock()
	v.newest = seq
	if len(v.queue) < queueMost {
		v.queue = append(v.queue, decidedBatch{seq, records})
	}
	v.queueMu.Unlock()
	v.wake()
}

// Configure takes the configuration that the machine decides by from now on.
func (v *Model) Configure(c fsm.Config) {
	v.queueMu.Lock()
	v.decides = &c
	v.queueMu.Unlock()
	v.wake()
}

func (v *Model) wake() {
	select {
	case v.more <- struct{}{}:
	default:
	}
}

// Follow reads what was before, and then takes what is decided, until ctx ends. What cannot be read is missing
// in the book, and read again.
func (v *Model) Follow(ctx context.Context) error {
	defer close(v.ended)
	var reading sync.WaitGroup
	defer reading.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var again chan *story.Book // what is read again; nil: nothing is missing
	readAgain := func(state []byte) {
		again = make(chan *story.Book, 1)
		into, config := again, v.config
		reading.Go(func() { v.readAgain(ctx, config, state, into) })
	}
	book, missing, err := v.load(ctx, v.config, v.state)
	switch {
	case err != nil:
		return err
	case missing == nil:
		v.state = nil
	case ctx.Err() == nil:
		v.log.Warn("what happened before this run cannot be read; explain and events know less", zap.Error(missing))
		if !errors.Is(missing, bus.ErrDamaged) { // that does not heal
			readAgain(v.state)
		}
	}
	for {
		late := v.takeQueue(ctx, book)
		select {
		case next := <-again:
			if err := v.catchUp(ctx, next, book.Last().Seq); err != nil {
				readAgain(v.state)
				continue
			}
			next.Configure(v.config)
			book, again, v.state = next, nil, nil
			v.log.Info("what happened before this run is read after all")
		case <-v.more:
		case <-late:
		case <-ctx.Done():
			return nil
		}
	}
}

// load makes a book of what was before the session. missing says why some of that is not in it; the book stands
// where the machine does all the same.
func (v *Model) load(ctx context.Context, config fsm.Config, state []byte) (book *story.Book, missing, err error) {
	book = story.NewBook(config, story.DefaultLimits)
	missing = feed.Journal(ctx, v.journal, func(seq uint64, records []fsm.Record) error {
		if seq > v.begin {
			return feed.ErrEnough
		}
		book.Apply(seq, records)
		return nil
	})
	return book, missing, book.Restore(v.begin, state)
}

// readAgain makes the book that could not be made, until that works, ctx ends, or it turns out that it never will.
func (v *Model) readAgain(ctx context.Context, config fsm.Config, state []byte, into chan<- *story.Book) {
	var book *story.Book
	select {
	case <-time.After(rereadFirst):
	case <-ctx.Done():
		return
	}
	err := failure.Retry(ctx, failure.Pauses(rereadFirst, rereadMost), 0, func() error {
		b, missing, err := v.load(ctx, config, state)
		if err := errors.Join(missing, err); errors.Is(err, bus.ErrDamaged) {
			return backoff.Permanent(err)
		} else if err != nil {
			return err
		}
		book = b
		return nil
	}, func(err error, pause time.Duration) {
		v.log.Debug("what happened before this run still cannot be read", zap.Error(err), zap.Duration("in", pause))
	})
	if err == nil {
		into <- book
	}
}

// takeQueue adds to the book what was decided, and shows it. What the queue has not, the journal has; if that
// cannot be read, the book stays as it is, and the channel says when it is time to try again.
func (v *Model) takeQueue(ctx context.Context, book *story.Book) (late <-chan time.Time) {
	v.queueMu.Lock()
	queue, newest, decides := v.queue, v.newest, v.decides
	v.queue, v.decides = nil, nil
	v.queueMu.Unlock()
	v.mu.Lock()
	for _, b := range queue {
		if b.seq > book.Last().Seq+1 {
			break
		}
		book.Apply(b.seq, b.records)
	}
	if decides != nil {
		v.config = *decides
		book.Configure(v.config)
	}
	v.mu.Unlock()
	if err := v.catchUp(ctx, book, newest); err != nil && ctx.Err() == nil {
		v.log.Warn("views are behind the journal, which cannot be read; it is tried again", zap.Error(err),
			zap.Duration("in", rereadFirst))
		late = time.After(rereadFirst)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.book = book
	close(v.changed)
	v.changed = make(chan struct{})
	return late
}

// catchUp adds to a book what the journal has up to a sequence.
func (v *Model) catchUp(ctx context.Context, book *story.Book, to uint64) error {
	if book.Last().Seq >= to {
		return nil
	}
	return feed.After(ctx, v.journal, bus.Head{Seq: book.Last().Seq}, func(seq uint64, records []fsm.Record) error {
		if seq > to {
			return feed.ErrEnough
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		book.Apply(seq, records)
		return nil
	})
}

// errViewOver: who looks has to begin anew.
var errViewOver = errors.New("the director reads its journal anew, or another one leads now: ask again")

// Read lets f look at the book, at least as of a place in the journal. It waits for that, and returns why it gave up.
func (v *Model) Read(ctx context.Context, seq uint64, f func(*story.Book)) error {
	for {
		v.mu.Lock()
		if v.book != nil && (v.book.Last().Seq >= seq || seq <= v.begin) {
			defer v.mu.Unlock()
			f(v.book)
			return nil
		}
		changed := v.changed
		v.mu.Unlock()
		select {
		case <-changed:
		case <-v.ended:
			return errViewOver
		case <-ctx.Done():
			return fmt.Errorf("the journal is still being read: %w", context.Cause(ctx))
		}
	}
}

// Next waits until something has happened after a place, and returns the newest place then.
func (v *Model) Next(ctx context.Context, after story.Place) (story.Place, error) {
	for {
		v.mu.Lock()
		changed, last := v.changed, after
		if v.book != nil {
			last = v.book.Last()
		}
		v.mu.Unlock()
		if last.After(after) {
			return last, nil
		}
		select {
		case <-changed:
		case <-v.ended:
			return after, errViewOver
		case <-ctx.Done():
			return after, context.Cause(ctx)
		}
	}
}

// AsOf makes a book of what the journal had at a time; zero: of all of it. It reads all of the journal.
func (v *Model) AsOf(ctx context.Context, at time.Time) (*story.Book, error) {
	select {
	case v.whole <- struct{}{}:
		defer func() { <-v.whole }()
	case <-ctx.Done():
		return nil, fmt.Errorf("somebody else has the journal read: %w", context.Cause(ctx))
	}
	v.mu.Lock()
	config := v.config
	v.mu.Unlock()
	book := story.NewBook(config, story.Limits{})
	return book, feed.Journal(ctx, v.journal, Before(book, at))
}

// Before adds to a book what was decided up to a time; zero: everything.
func Before(book *story.Book, at time.Time) feed.Take {
	return func(seq uint64, records []fsm.Record) error {
		if !at.IsZero() && len(records) > 0 && records[0].At.After(at) {
			return feed.ErrEnough
		}
		book.Apply(seq, records)
		return nil
	}
}

// Events hands out what has happened, at least up to a place in the journal, a list at a time, and then, if it
// is to follow, what happens until ctx ends. Nothing is left out: what the book has dropped by the time that it
// is asked is read from the journal.
func (v *Model) Events(ctx context.Context, seq uint64, f operator.EventFilter, each func([]story.Event) error) error {
	for last := f.After; ; {
		var all []story.Event
		var gap bool
		soon, cancel := context.WithTimeout(ctx, operator.ViewTime)
		next := last
		err := v.Read(soon, seq, func(b *story.Book) {
			all, gap = b.Events(last, f.Issue)
			gap = gap && !b.Covers(f.Since)
			next = b.Last()
		})
		cancel()
		if err != nil {
			return err
		}
		if gap {
			b, err := v.AsOf(ctx, time.Time{})
			if err != nil {
				return fmt.Errorf("what happened after %s can only be read from the journal: %w", last, err)
			}
			all, _ = b.Events(last, f.Issue)
			next = b.Last()
		}
		if err := each(f.Keep(all)); err != nil || !f.Follow {
			return err
		}
		last, seq = next, 0
		if _, err := v.Next(ctx, last); err != nil {
			return err // whoever follows has gone, or the session is over
		}
	}
}
