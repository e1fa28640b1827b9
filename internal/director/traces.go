package director

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/trace"
)

const (
	// tracedAgain is how much of the journal's end is exported once more by a process that begins: what the one
	// before had decided and perhaps not sent. The ids are the same.
	tracedAgain = time.Minute
	// recordsMost bounds what waits for the follower: it only falls behind while it reads a long journal.
	recordsMost = 65_536
	// stagesPatience is how long the reports of an attempt that has ended are waited for.
	stagesPatience = 3 * time.Second
)

// traces follows the journal for telemetry, in a goroutine of its own: the owner hands records over and goes
// on. It is of one session; nil: nothing is traced.
type traces struct {
	*telemetry
	log     *zap.Logger
	journal batches
	reports func(ctx context.Context, worker string) ([]bus.Report, error)
	book    *trace.Book

	known  []trace.Known // the machine's tasks when the session began
	before uint64        // the journal's last sequence then
	since  time.Time     // what is newer was perhaps not exported yet

	mu      sync.Mutex
	records []fsm.Record
	missed  int
	some    chan struct{} // a token while any wait
}

// newTraces is called before the owner begins.
func (s *session) newTraces(m *fsm.Machine, last uint64) *traces {
	if s.telemetry == nil {
		return nil
	}
	f := &traces{
		telemetry: s.telemetry, log: s.log, journal: s.bus.Journal(), reports: s.reports.of,
		book:   trace.NewBook(s.config.Director.Fleet),
		before: last, since: s.telemetry.exported, some: make(chan struct{}, 1),
	}
	if f.since.IsZero() {
		f.since = m.Now().Add(-tracedAgain)
	}
	for _, t := range m.Tasks() {
		f.known = append(f.known, trace.KnownOf(t))
		f.note(t.Key, t.Nonce)
	}
	return f
}

// put hands a durable record over. It is called by the owner, and does not block.
func (f *traces) put(r fsm.Record) {
	if f == nil {
		return
	}
	for _, fact := range r.Facts {
		switch fact := fact.(type) {
		case fsm.TaskQueued:
			f.note(fact.Task, fact.Nonce)
		case fsm.TaskRebuilt:
			f.note(fact.Rebuilt.Key, fact.Rebuilt.Nonce)
		}
	}
	f.mu.Lock()
	if len(f.records) < recordsMost {
		f.records = append(f.records, r)
	} else {
		f.missed++
	}
	f.mu.Unlock()
	select {
	case f.some <- struct{}{}:
	default:
	}
}

// run reads what the journal has, and follows it until ctx ends.
func (f *traces) run(ctx context.Context) {
	if f == nil {
		return
	}
	f.load(ctx)
	for {
		select {
		case <-f.some:
			f.take(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// finish takes what became durable while the session ended.
func (f *traces) finish() {
	if f == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stagesPatience)
	defer cancel()
	f.take(ctx)
}

// load tells the book what began before this session. What cannot be read costs the beginnings of tasks that
// are under way, and nothing else.
func (f *traces) load(ctx context.Context) {
	err := readJournal(ctx, f.journal, func(seq uint64, records []fsm.Record) error {
		if seq > f.before {
			return errEnough
		}
		for _, r := range records {
			f.follow(ctx, r)
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		f.log.Info("traces of tasks that are under way begin late: the journal was not read from its beginning",
			zap.Error(err))
	}
	for _, k := range f.known {
		f.book.Meet(k)
	}
	f.known = nil
}

func (f *traces) take(ctx context.Context) {
	f.mu.Lock()
	records, missed := f.records, f.missed
	f.records, f.missed = nil, 0
	f.mu.Unlock()
	for _, r := range records {
		f.follow(ctx, r)
	}
	if missed > 0 {
		f.log.Warn("traces have gaps: the journal grew faster than it was followed", zap.Int("records", missed))
	}
}

// follow exports what a record ends, unless that was done before.
func (f *traces) follow(ctx context.Context, r fsm.Record) {
	spans := f.book.Follow(r)
	if !r.At.After(f.since) {
		return
	}
	for _, s := range spans {
		if s.Worker != "" && s.Report > 0 {
			f.export(trace.Stages(s, f.stages(ctx, s)))
		}
		f.export([]trace.Span{s})
		if s.Parent == [8]byte{} {
			f.forget(s)
		}
	}
	f.exported = r.At
}

// stages are what an attempt's report says of them; nil: it cannot be read, or does not say.
func (f *traces) stages(ctx context.Context, s trace.Span) []wire.StageResult {
	ctx, cancel := context.WithTimeout(ctx, stagesPatience)
	defer cancel()
	all, err := f.reports(ctx, s.Worker)
	if err != nil {
		f.log.Debug("an attempt is traced without its stages", zap.String("worker", s.Worker), zap.Error(err))
	}
	for _, r := range all {
		if r.Seq != s.Report {
			continue
		}
		switch body := r.Body.(type) {
		case *wire.WorkerResult:
			return body.Stages
		case *wire.WorkerError:
			return body.Stages
		}
	}
	return nil
}
