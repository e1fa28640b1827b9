package telemetry

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/projection/feed"
	"retake/internal/trace"
)

const (
	// A new process re-exports the spans that ended within tracedAgain before its start, because the previous process
	// may not have exported them. Span IDs are stable, so duplicates do no harm.
	tracedAgain = time.Minute
	// recordsMost limits the follower's queue. The follower falls behind only while it reads a long journal.
	recordsMost = 65_536
	// stagesPatience limits the wait for a finished attempt's reports.
	stagesPatience = 3 * time.Second
)

// reportsOf reads a worker's reports.
type reportsOf func(ctx context.Context, worker string) ([]bus.Report, error)

// Follower derives spans from the journal in a separate goroutine. The owner only queues records, without waiting. A
// Follower serves one session. The methods of a nil Follower do nothing.
type Follower struct {
	*Exporter
	log     *zap.Logger
	journal feed.Source
	reports reportsOf
	book    *trace.Book
	ended   []trace.Span // spans that ended with the current records

	snapshot []byte    // the machine's snapshot at the start of the session
	before   uint64    // the journal's last sequence at the start of the session
	since    time.Time // the follower exports only spans that ended after this time

	mu      sync.Mutex
	records []fsm.Record
	missed  int
	some    chan struct{} // holds a token while records are queued
}

// Follow returns the follower of a session, or nil if t is nil. snapshot is the machine's state at the journal's
// sequence last. Call it before the owner starts.
func (t *Exporter) Follow(m *fsm.Machine, last uint64, snapshot []byte, j feed.Source, reports reportsOf,
	log *zap.Logger,
) *Follower {
	if t == nil {
		return nil
	}
	f := &Follower{
		Exporter: t, log: log, journal: j, reports: reports,
		snapshot: snapshot, before: last, since: t.exported, some: make(chan struct{}, 1),
	}
	f.book = trace.NewBook(t.fleet, f.keep)
	if f.since.IsZero() {
		f.since = m.Now().Add(-tracedAgain)
	}
	for _, t := range m.Tasks() {
		f.note(t.Key, t.Nonce)
	}
	return f
}

// Apply implements projection.Projection. It only queues the records.
func (f *Follower) Apply(_ uint64, records []fsm.Record) {
	for _, r := range records {
		for _, fact := range r.Facts {
			switch fact := fact.(type) {
			case fsm.TaskQueued:
				f.note(fact.Task, fact.Nonce)
			case fsm.TaskRebuilt:
				f.note(fact.Rebuilt.Key, fact.Rebuilt.Nonce)
			}
		}
	}
	f.mu.Lock()
	if len(f.records) < recordsMost {
		f.records = append(f.records, records...)
	} else {
		f.missed += len(records)
	}
	f.mu.Unlock()
	select {
	case f.some <- struct{}{}:
	default:
	}
}

// Run reads the journal up to the start of the session, and then follows the session's records until ctx is done.
func (f *Follower) Run(ctx context.Context) {
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

// Finish processes the records that became durable while the session ended.
func (f *Follower) Finish() {
	if f == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stagesPatience)
	defer cancel()
	f.take(ctx)
}

// load fills the book from the journal up to the start of the session. If a part cannot be read, running tasks lose
// only the beginning of their traces.
func (f *Follower) load(ctx context.Context) {
	err := feed.Journal(ctx, f.journal, func(seq uint64, records []fsm.Record) error {
		if seq > f.before {
			return feed.ErrEnough
		}
		f.follow(ctx, seq, records)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		f.log.Info("could not read the journal from its beginning, so traces of running tasks begin late",
			zap.Error(err))
	}
	if err := f.book.Restore(f.before, f.snapshot); err != nil {
		f.log.Warn("running tasks are not traced", zap.Error(err))
	}
	f.snapshot = nil
}

func (f *Follower) take(ctx context.Context) {
	f.mu.Lock()
	records, missed := f.records, f.missed
	f.records, f.missed = nil, 0
	f.mu.Unlock()
	f.follow(ctx, 0, records)
	if missed > 0 {
		f.log.Warn("traces have gaps, because the journal grew faster than it was read", zap.Int("records", missed))
	}
}

// follow exports the spans that records end, unless an earlier process exported them.
func (f *Follower) follow(ctx context.Context, seq uint64, records []fsm.Record) {
	f.book.Apply(seq, records)
	for _, s := range f.ended {
		if s.Worker != "" && s.Report > 0 {
			f.export(trace.Stages(s, f.stages(ctx, s)))
		}
		f.export([]trace.Span{s})
		if s.Parent == [8]byte{} {
			f.forget(s)
		}
	}
	f.ended = nil
	if n := len(records); n > 0 && records[n-1].At.After(f.since) {
		f.exported = records[n-1].At
	}
}

// keep queues a span for export, unless an earlier process exported it.
func (f *Follower) keep(at time.Time, s trace.Span) {
	if at.After(f.since) {
		f.ended = append(f.ended, s)
	}
}

// stages returns the stages in an attempt's report, or nil if the report cannot be read.
func (f *Follower) stages(ctx context.Context, s trace.Span) []wire.StageResult {
	ctx, cancel := context.WithTimeout(ctx, stagesPatience)
	defer cancel()
	all, err := f.reports(ctx, s.Worker)
	if err != nil {
		f.log.Debug("traced an attempt without its stages", zap.String("worker", s.Worker), zap.Error(err))
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
