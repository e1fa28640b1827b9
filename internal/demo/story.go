package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"retake/internal/bus"
	"retake/internal/fsm"
)

// story is what the journal says about one issue.
type story struct {
	attempts int
	verdicts []string    // "reason: action"
	final    string      // the last state
	through  []string    // all states
	begun    time.Time   // found by a poll
	claiming time.Time   // when the claim began
	reported []time.Time // when the reports that ended attempts were accepted
	ended    time.Time   // last change of state
}

// readJournal reads the journal that the director has left; it must have ended. Nobody can connect meanwhile.
func readJournal(ctx context.Context, dataDir, fleet string) (stories map[string]*story, err error) {
	b, err := bus.Open(ctx, bus.Options{StoreDir: filepath.Join(dataDir, "bus"), Fleet: fleet})
	if err != nil {
		return nil, fmt.Errorf("demo: journal: %w", err)
	}
	defer func() { err = errors.Join(err, b.Close(context.WithoutCancel(ctx))) }()
	stories = map[string]*story{}
	_, err = b.Journal().Replay(ctx, 0, func(_ uint64, data []byte) error {
		records, err := fsm.ReadBatch(data)
		if err != nil {
			return err
		}
		tell(stories, records)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("demo: journal: %w", err)
	}
	return stories, nil
}

// tell adds records to the stories.
func tell(stories map[string]*story, records []fsm.Record) {
	of := func(k fsm.IssueKey) *story {
		s, ok := stories[string(k)]
		if !ok {
			s = &story{}
			stories[string(k)] = s
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
