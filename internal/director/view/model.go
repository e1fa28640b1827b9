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
	"retake/internal/timeline"
)

// Model is the read model of a session. Commands, the page and reports all read its book. A goroutine follows the
// journal and updates the book, so readers never make the owner wait.
//
//	journal, to where the session begins ─feed.Journal──▶ follow ──▶ book ◀── read ── commands, page
//	owner, each durable batch ──Apply──▶ queue ─────────▶ follow
//	journal, batches that did not fit into the queue ──feed.After──▶ follow
type Model struct {
	log     *zap.Logger
	journal feed.Source
	config  fsm.Config // used by Follow's goroutine only; other fields need mu
	begin   uint64     // the journal's last sequence when the session began
	state   []byte     // the machine's snapshot at begin, until the book has it; only Follow's goroutine uses it

	queueMu sync.Mutex
	queue   []decidedBatch // batches since begin that are not in the book yet; at most queueMost
	newest  uint64         // the last decided sequence, even if not queued; 0 without a decision since begin
	decides *fsm.Config    // the machine's next configuration; nil if unchanged
	more    chan struct{}  // wakes Follow; capacity 1, so signals coalesce

	mu      sync.Mutex     // never locked by the owner
	book    *timeline.Book // nil until Follow has read the journal up to the start of the session
	changed chan struct{}  // closed and replaced when the book has new events
	ended   chan struct{}  // closed when Follow has returned
	whole   chan struct{}  // capacity 1, so that one request at a time reads the whole journal
}

// queueMost limits the queue to a few minutes of a busy fleet. Further batches are read from the journal.
const queueMost = 4096

// Pauses before the journal is read again after a failure.
const (
	rereadFirst = 10 * time.Second
	rereadMost  = 10 * time.Minute
)

// decidedBatch is a batch that waits for Follow.
type decidedBatch struct {
	seq     uint64
	records []fsm.Record
}

// New returns the read model of a machine. Call it before the machine's first decision after a start.
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

// State returns the machine's snapshot from the start of the session. Call it before Follow.
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

// Configure sets the configuration that the machine uses for decisions from now on.
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

// Follow reads the journal up to the start of the session, then adds decided batches to the book until ctx is done. If
// a part of the earlier journal cannot be read, the book omits it while a second goroutine retries. Follow waits for
// that goroutine before it returns.
func (v *Model) Follow(ctx context.Context) error {
	defer close(v.ended)
	var reading sync.WaitGroup
	defer reading.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var again chan *timeline.Book // receives a complete book; nil when the book is complete
	readAgain := func(state []byte) {
		again = make(chan *timeline.Book, 1)
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
		v.log.Warn("could not read the history before this run, so explain and events show less", zap.Error(missing))
		if !errors.Is(missing, bus.ErrDamaged) { // damage is permanent, so a retry cannot help
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
			v.log.Info("read the history before this run after a retry")
		case <-v.more:
		case <-late:
		case <-ctx.Done():
			return nil
		}
	}
}

// load builds the book from the journal up to the start of the session. missing is the error that prevented a complete
// book. The book always ends at the machine's state.
func (v *Model) load(ctx context.Context, config fsm.Config, state []byte) (book *timeline.Book, missing, err error) {
	book = timeline.NewBook(config, timeline.DefaultLimits)
	missing = feed.Journal(ctx, v.journal, func(seq uint64, records []fsm.Record) error {
		if seq > v.begin {
			return feed.ErrEnough
		}
		book.Apply(seq, records)
		return nil
	})
	return book, missing, book.Restore(v.begin, state)
}

// readAgain retries load until it succeeds, ctx is done, or the journal turns out to be damaged. After a success, it
// sends the book on the channel.
func (v *Model) readAgain(ctx context.Context, config fsm.Config, state []byte, into chan<- *timeline.Book) {
	var book *timeline.Book
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
		v.log.Debug("still cannot read the history before this run", zap.Error(err), zap.Duration("in", pause))
	})
	if err == nil {
		into <- book
	}
}

// takeQueue adds the queued batches to the book and publishes it. If the queue has dropped batches, takeQueue
// reads the batches from the journal. If that fails, the book stays behind, and late fires when it is time to
// retry.
func (v *Model) takeQueue(ctx context.Context, book *timeline.Book) (late <-chan time.Time) {
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
		v.log.Warn("could not read the journal, so views are out of date; retrying", zap.Error(err),
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

// catchUp adds the journal's batches to a book, up to sequence to.
func (v *Model) catchUp(ctx context.Context, book *timeline.Book, to uint64) error {
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

// errViewOver tells the reader to start over in the next session.
var errViewOver = errors.New("director: rereading the journal, or another director leads: try again")

// Read calls f with the book when it covers seq. It blocks until then, and returns an error if ctx or the session
// ends first. f runs under the model's lock.
func (v *Model) Read(ctx context.Context, seq uint64, f func(*timeline.Book)) error {
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

// Next blocks until there is an event after the given place, and returns the newest place. It returns an error if ctx
// or the session ends first.
func (v *Model) Next(ctx context.Context, after timeline.Place) (timeline.Place, error) {
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

// AsOf builds a book from the journal up to a time, or from the whole journal if at is zero. It reads the journal from
// its beginning. Concurrent calls run one at a time.
func (v *Model) AsOf(ctx context.Context, at time.Time) (*timeline.Book, error) {
	select {
	case v.whole <- struct{}{}:
		defer func() { <-v.whole }()
	case <-ctx.Done():
		return nil, fmt.Errorf("another request is already reading the journal: %w", context.Cause(ctx))
	}
	v.mu.Lock()
	config := v.config
	v.mu.Unlock()
	book := timeline.NewBook(config, timeline.Limits{})
	return book, feed.Journal(ctx, v.journal, Before(book, at))
}

// Before returns a feed.Take that adds batches to a book up to a time, or all batches if at is zero.
func Before(book *timeline.Book, at time.Time) feed.Take {
	return func(seq uint64, records []fsm.Record) error {
		if !at.IsZero() && len(records) > 0 && records[0].At.After(at) {
			return feed.ErrEnough
		}
		book.Apply(seq, records)
		return nil
	}
}

// Events calls each with lists of past events, at least up to sequence seq. With Follow, it continues with new
// events until ctx is done. If the book has dropped events, it reads them from the journal, so the list is complete.
func (v *Model) Events(
	ctx context.Context, seq uint64, f operator.EventFilter, each func([]timeline.Event) error,
) error {
	for last := f.After; ; {
		var all []timeline.Event
		var gap bool
		soon, cancel := context.WithTimeout(ctx, operator.ViewTime)
		next := last
		err := v.Read(soon, seq, func(b *timeline.Book) {
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
				return fmt.Errorf("events after %s can only be read from the journal: %w", last, err)
			}
			all, _ = b.Events(last, f.Issue)
			next = b.Last()
		}
		if err := each(f.Keep(all)); err != nil || !f.Follow {
			return err
		}
		last, seq = next, 0
		if _, err := v.Next(ctx, last); err != nil {
			return err // the caller has stopped, or the session is over
		}
	}
}
