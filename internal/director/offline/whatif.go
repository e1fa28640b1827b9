package offline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/inforce"
	"retake/internal/director/operator"
	"retake/internal/director/reports"
	"retake/internal/fsm"
	"retake/internal/projection/feed"
	"retake/internal/recovery"
	"retake/internal/whatif"
)

// WhatIf replays a journal's events under other settings.
type WhatIf struct {
	Config config.Config // the configuration of the journal's director
	Export string        // file written by `director journal export`, read instead of the journal
	Other  config.Config // the configuration to decide by
	// Today is the current configuration. The report marks each case that Today would decide the same way as Other,
	// because the differences between the two did not cause it. Nil skips this comparison.
	Today  *config.Config
	Reread bool      // reclassify stored reports by Other's rules; exports do not contain reports
	Since  time.Time // report only verdicts since then; zero reports all
	Only   func(fsm.IssueKey) bool
	Seen   func(fsm.Fact) // receives each fact; may be nil
}

// Ask replays the whole journal without changing it, and reports which decisions would have differed. It reads an
// embedded bus through the running director or, without one, from a copy of the bus. It reads a shared bus even while
// directors are running.
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
	err = With(ctx, q.Config, true, func(ctx context.Context, b *bus.Bus) error {
		var err error
		r, err = q.follow(cfg, today, func(take feed.Take) error { return feed.Journal(ctx, b.Journal(), take) },
			func(seq uint64) (bus.StoredReport, error) { return b.StoredReport(ctx, seq) })
		return err
	})
	return r, err
}

// decidesBy returns the machine's configuration for c.
func decidesBy(c config.Config) (fsm.Config, error) {
	in, err := inforce.New(c, nil)
	if err != nil {
		return fsm.Config{}, err
	}
	return in.Machine(nil), nil
}

// streamed reads the journal through the running director, and numbers its batches from 1.
func streamed(ctx context.Context, dataDir string, take feed.Take) error {
	return feed.Batches(ctx, func(ctx context.Context, fn func(uint64, []byte) error) error {
		n := uint64(0)
		return operator.AskJournal(ctx, dataDir, func(data []byte) error { n++; return fn(n, data) })
	}, take)
}

// follow replays batches, and reads reports on request. A nil report means that reports are not available.
func (q WhatIf) follow(cfg fsm.Config, today *fsm.Config, batches func(take feed.Take) error,
	report func(seq uint64) (bus.StoredReport, error),
) (*whatif.Report, error) {
	o := whatif.Options{Since: q.Since, Only: q.Only}
	var failed error // the error of a report that exists but cannot be read
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

// evidenceOf reads the evidence of a stored report. It returns bus.ErrNoReport if the stored report is not the one in
// the journal, according to its digest.
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
	return reports.Evidence(body, stored.Received), nil
}
