package director

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/chain"
	"retake/internal/fsm"
	"retake/internal/story"
)

// views keep the read model of a session: all that people look at, be it by command, page or report, comes from its book. A goroutine of its own
// follows the journal, so that whoever looks never makes the owner wait.
//
//	journal, to where the session begins ──Records──▶ follow ──▶ book ◀── read ── commands, page
//	owner, each durable batch ──batch────▶ queue ───▶ follow
type views struct {
	log     *zap.Logger
	journal *bus.Journal
	config  fsm.Config // follow's own; for others under mu
	begin   uint64     // what the journal had when the session began
	state   []byte     // of the machine then

	queueMu sync.Mutex
	queue   []decidedBatch // decided since, and not in the book yet
	more    chan struct{}  // the queue has something; room for one

	mu      sync.Mutex    // never the owner's
	book    *story.Book   // nil: what was before is still being read
	changed chan struct{} // closed when the book has more
	ended   chan struct{} // closed when nobody follows the journal any more: the session is over
	whole   chan struct{} // one reading of the whole journal at a time; room for one
}

type decidedBatch struct {
	seq     uint64
	records []fsm.Record
	config  *fsm.Config // what decides from now on, instead
}

// newViews begins with the machine as it is before it decides anything.
func newViews(d *fsm.Driver, j *bus.Journal, config fsm.Config, log *zap.Logger) (*views, error) {
	state, err := d.Machine().Snapshot()
	if err != nil {
		return nil, err
	}
	return &views{log: log, journal: j, config: config, begin: d.Last(), state: state, more: make(chan struct{}, 1), changed: make(chan struct{}), ended: make(chan struct{}), whole: make(chan struct{}, 1)}, nil
}

// batch takes what has become durable. It is the owner's.
func (v *views) batch(seq uint64, records []fsm.Record) {
	v.add(decidedBatch{seq: seq, records: records})
}

// configure takes the configuration that the machine decides by from now on.
func (v *views) configure(c fsm.Config) { v.add(decidedBatch{config: &c}) }

func (v *views) add(b decidedBatch) {
	v.queueMu.Lock()
	v.queue = append(v.queue, b)
	v.queueMu.Unlock()
	select {
	case v.more <- struct{}{}:
	default:
	}
}

// follow reads what was before, and then takes what is decided, until ctx ends.
func (v *views) follow(ctx context.Context) error {
	defer close(v.ended)
	book := story.NewBook(v.config, story.DefaultLimits)
	if err := readBook(ctx, v.journal, book, func(r chain.Record, _ []fsm.Record) bool { return r.Seq <= v.begin }); err != nil && ctx.Err() == nil {
		v.log.Warn("what happened before this run cannot be read; explain and events know less", zap.Error(err))
	}
	if err := book.Adopt(v.state); err != nil {
		return err
	}
	for {
		v.queueMu.Lock()
		queue := v.queue
		v.queue = nil
		v.queueMu.Unlock()
		v.mu.Lock()
		for _, b := range queue {
			if b.config != nil {
				v.config = *b.config
				book.Configure(v.config)
			} else {
				book.Add(b.seq, b.records)
			}
		}
		v.book = book
		close(v.changed)
		v.changed = make(chan struct{})
		v.mu.Unlock()
		select {
		case <-v.more:
		case <-ctx.Done():
			return nil
		}
	}
}

// errViewOver: who looks has to begin anew.
var errViewOver = errors.New("the director reads its journal anew, or another one leads now: ask again")

// errEnough ends a reading.
var errEnough = errors.New("enough is read")

// readBook adds what a journal has, archived and live, for as long as wanted says so.
func readBook(ctx context.Context, j *bus.Journal, book *story.Book, wanted func(chain.Record, []fsm.Record) bool) error {
	at, err := j.Begin(ctx)
	if err != nil {
		return err
	}
	_, err = j.Records(ctx, at, func(r chain.Record) error { return addBatch(book, r, wanted) })
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// addBatch adds one batch, or returns errEnough.
func addBatch(book *story.Book, r chain.Record, wanted func(chain.Record, []fsm.Record) bool) error {
	records, err := fsm.ReadBatch(r.Data)
	if err != nil {
		return fmt.Errorf("journal at %d: %w", r.Seq, err)
	}
	if !wanted(r, records) {
		return errEnough
	}
	book.Add(r.Seq, records)
	return nil
}

// read lets f look at the book, at least as of a place in the journal. It waits for that, and returns why it gave up.
func (v *views) read(ctx context.Context, seq uint64, f func(*story.Book)) error {
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

// next waits until something has happened after a place.
func (v *views) next(ctx context.Context, after story.Place) error {
	for {
		v.mu.Lock()
		changed := v.changed
		more := v.book != nil && v.book.Last().After(after)
		v.mu.Unlock()
		if more {
			return nil
		}
		select {
		case <-changed:
		case <-v.ended:
			return errViewOver
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// asOf makes a book of what the journal had at a time. It reads all of the journal.
func (v *views) asOf(ctx context.Context, at time.Time) (*story.Book, error) {
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
	return book, readBook(ctx, v.journal, book, before(at))
}

// before wants what was decided up to a time.
func before(at time.Time) func(chain.Record, []fsm.Record) bool {
	return func(_ chain.Record, records []fsm.Record) bool { return len(records) == 0 || !records[0].At.After(at) }
}
