package director

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/projection/feed"
	"retake/internal/recovery"
	"retake/internal/whatif"
)

// WhatIf is a question to a journal.
type WhatIf struct {
	Config config.Config // whose journal it is
	Export string        // a file of `director journal export` instead; empty: the journal itself
	Other  config.Config // what is decided by instead
	// what is decided by now, so that cases can be told that are so already; nil: nothing is compared
	Today  *config.Config
	Reread bool      // stored reports are read again, with Other's rules; an export has none
	Since  time.Time // verdicts before it are not reported; zero: all are
	Only   func(fsm.IssueKey) bool
	Seen   func(fsm.Fact) // is called with each fact that is read; may be nil
}

// Ask follows the journal, archived batches included, and says what would have been decided otherwise. It
// changes nothing. If a director runs on the data directory with an embedded bus, that one is asked for its
// journal; if none runs, a copy of the bus is read, as by VerifyJournal. A joined bus is read beside its
// directors.
func (q WhatIf) Ask(ctx context.Context) (*whatif.Report, error) {
	cfg, err := decidesBy(q.Other)
	if err != nil {
		return nil, err
	}
	var today *fsm.Config
	if q.Today != nil {
		cfg, err := decidesBy(*q.Today)
		if err != nil {
			return nil, err
		}
		today = &cfg
	}
	switch {
	case q.Export != "":
		return q.follow(cfg, today, func(take feed.Take) error { return feed.Export(q.Export, take) }, nil)
	case q.Config.AgentBus.URL == "":
		dir := q.Config.Director.DataDir
		r, err := q.follow(cfg, today, func(take feed.Take) error { return streamed(ctx, dir, take) },
			func(seq uint64) (bus.StoredReport, error) { return operator.AskReport(ctx, dir, seq) })
		if !errors.Is(err, operator.ErrNotThere) {
			return r, err
		}
	}
	var r *whatif.Report
	err = withJournal(ctx, q.Config, true, func(ctx context.Context, b *bus.Bus) error {
		var err error
		r, err = q.follow(cfg, today, func(take feed.Take) error { return feed.Journal(ctx, b.Journal(), take) },
			func(seq uint64) (bus.StoredReport, error) { return b.StoredReport(ctx, seq) })
		return err
	})
	return r, err
}

// decidesBy is the part of a configuration that decisions are made by.
func decidesBy(c config.Config) (fsm.Config, error) {
	d := &daemon{config: c}
	in, err := d.newSetup(c, nil)
	if err != nil {
		return fsm.Config{}, err
	}
	return d.machineConfig(in), nil
}

// streamed reads the journal of the director that runs on a data directory, and numbers its batches from 1.
func streamed(ctx context.Context, dataDir string, take feed.Take) error {
	return feed.Batches(ctx, func(ctx context.Context, fn func(uint64, []byte) error) error {
		n := uint64(0)
		return operator.AskJournal(ctx, dataDir, func(data []byte) error { n++; return fn(n, data) })
	}, take)
}

// follow reads batches, and reports as they are asked for; report nil: there are none.
func (q WhatIf) follow(cfg fsm.Config, today *fsm.Config, batches func(take feed.Take) error,
	report func(seq uint64) (bus.StoredReport, error),
) (*whatif.Report, error) {
	o := whatif.Options{Since: q.Since, Only: q.Only}
	var failed error // a report that cannot be read is not one that is gone
	if q.Reread {
		o.Read = func(ref fsm.ReportRef) whatif.Reread {
			if report == nil || failed != nil {
				return whatif.Reread{Gone: true}
			}
			e, err := evidenceOf(ref, report)
			if err != nil && !errors.Is(err, bus.ErrNoReport) {
				failed = err
			}
			if err != nil {
				return whatif.Reread{Gone: true}
			}
			return whatif.Reread{Finding: cfg.Classify(e)}
		}
	}
	f := []*whatif.Follower{whatif.New(cfg, o)}
	if today != nil {
		f = append(f, whatif.New(*today, whatif.Options{Since: q.Since, Only: q.Only}))
	}
	err := batches(func(seq uint64, records []fsm.Record) error {
		q.see(records)
		for _, f := range f {
			f.Apply(seq, records)
		}
		return failed
	})
	if err != nil {
		return nil, err
	}
	r := f[0].Report()
	if today != nil {
		r.Compare(f[1].Report())
	}
	return r, nil
}

func (q WhatIf) see(records []fsm.Record) {
	if q.Seen == nil {
		return
	}
	for _, r := range records {
		for _, f := range r.Facts {
			q.Seen(f)
		}
	}
}

// evidenceOf reads what a report said. One with another digest than the journal has is not the one.
func evidenceOf(ref fsm.ReportRef, report func(seq uint64) (bus.StoredReport, error)) (recovery.Evidence, error) {
	stored, err := report(ref.Seq)
	if err != nil {
		return recovery.Evidence{}, err
	}
	sum := sha256.Sum256(stored.Data)
	e, err := wire.Decode(stored.Data)
	body, ok := e.Payload.(*wire.WorkerError)
	if err != nil || !ok || hex.EncodeToString(sum[:]) != ref.SHA256 {
		return recovery.Evidence{}, bus.ErrNoReport
	}
	return Evidence(body, stored.Received), nil
}
