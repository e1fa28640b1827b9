package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/server"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// taskHistory summarizes the journal's records about one issue.
type taskHistory struct {
	attempts int
	verdicts []string    // "reason: action"
	final    string      // the last state
	through  []string    // all states
	begun    time.Time   // when a poll found the issue
	claiming time.Time   // when the claim began
	reported []time.Time // when the reports that ended attempts were accepted
	ended    time.Time   // last state change
	used     recovery.Usage
}

// readJournal reads the journal of a director that has ended. For this, it starts an embedded bus, which refuses
// connections from outside.
func readJournal(ctx context.Context, dataDir, fleet string) (histories map[string]*taskHistory, err error) {
	srv, err := server.Start(ctx, server.Options{Dir: filepath.Join(dataDir, "bus")})
	if err != nil {
		return nil, fmt.Errorf("demo: journal: %w", err)
	}
	b, err := bus.Open(ctx, bus.Options{Server: srv, Fleet: fleet})
	if err != nil {
		return nil, fmt.Errorf("demo: journal: %w", err)
	}
	defer func() { err = errors.Join(err, b.Close(context.WithoutCancel(ctx))) }()
	histories = map[string]*taskHistory{}
	_, err = b.Journal().Replay(ctx, bus.Head{}, func(_ uint64, data []byte) error {
		records, err := fsm.ReadBatch(data)
		if err != nil {
			return err
		}
		addRecords(histories, records)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("demo: journal: %w", err)
	}
	return histories, nil
}

// addRecords adds records to the histories.
func addRecords(histories map[string]*taskHistory, records []fsm.Record) {
	of := func(k fsm.IssueKey) *taskHistory {
		s, ok := histories[string(k)]
		if !ok {
			s = &taskHistory{}
			histories[string(k)] = s
		}
		return s
	}
	for _, r := range records {
		for _, f := range r.Facts {
			switch f := f.(type) {
			case fsm.TaskQueued:
				of(f.Task).begun = r.At
			case fsm.AttemptBegan:
				of(f.Task).attempts = f.N
			case fsm.VerdictMade:
				s := of(f.Task)
				s.verdicts = append(s.verdicts, fmt.Sprintf("%s: %s", f.Finding.Reason, f.Verdict.Action))
			case fsm.ReportAccepted:
				if f.Final {
					s := of(f.Task)
					s.reported = append(s.reported, r.At)
				}
			case fsm.UsageCounted:
				if f.Ended {
					s := of(f.Task)
					s.used = f.Usage
				}
			case fsm.Moved:
				s := of(f.Task)
				s.final, s.ended = f.To.String(), r.At
				if s.through = append(s.through, s.final); f.To == fsm.Claiming {
					s.claiming = r.At
				}
			}
		}
	}
}
