// Package looptest runs an owner on a fake journal. The test decides the result of each append.
package looptest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"retake/internal/bus"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// Journal is a fake journal. An append blocks until the test sends its answer.
type Journal struct {
	Answers chan error // one for each append; nil accepts it

	mu  sync.Mutex
	seq uint64
}

// NewJournal returns an empty journal.
func NewJournal() *Journal { return &Journal{Answers: make(chan error, 16)} }

// Append returns the test's next answer.
func (j *Journal) Append(ctx context.Context, _ string, after uint64, _ []byte) (uint64, error) {
	select {
	case err := <-j.Answers:
		if err != nil {
			return 0, err
		}
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if after != j.seq {
		return 0, bus.ErrRefused
	}
	j.seq++
	return j.seq, nil
}

// Head returns the journal's end after the last append.
func (j *Journal) Head() bus.Head {
	j.mu.Lock()
	defer j.mu.Unlock()
	return bus.Head{Seq: j.seq}
}

// Config returns a configuration for a machine.
func Config() fsm.Config {
	policy, err := policy.Preset("director")
	if err != nil {
		panic(err)
	}
	return fsm.Config{
		MaxWorkers: 2, HeartbeatTTL: 90 * time.Second, Watchdog: time.Hour, StartTimeout: time.Minute,
		StopGrace: time.Second,
		Policy:    policy,
		Classify:  func(e recovery.Evidence) recovery.Finding { return recovery.Finding{Reason: e.Known} },
		Retry:     recovery.DefaultBackoff,
	}
}

// Harness is a running owner, with its outputs.
type Harness struct {
	*loop.Owner
	Journal *Journal
	Effects chan fsm.Effect
	Ended   chan error
}

// Start starts an owner with a machine that has booted. The owner runs until ctx is done.
func Start(ctx context.Context, t *testing.T) *Harness {
	h := &Harness{Journal: NewJournal(), Effects: make(chan fsm.Effect, 16), Ended: make(chan error, 1)}
	m := fsm.New(Config())
	m.Step(fsm.Event{At: time.Now(), Body: fsm.Booted{RunID: "test"}}) // the machine must have booted
	h.Owner = loop.New(fsm.NewDriver(m, 0, "test"), h.Journal, zaptest.NewLogger(t))
	h.Owner.Effects = func(e fsm.Effect) { h.Effects <- e }
	go func() { h.Ended <- h.Run(ctx) }()
	return h
}

// Eligible returns the event for one issue that may be claimed.
func Eligible(n int) fsm.IssuesSeen {
	return fsm.IssuesSeen{Repo: "acme/widgets", Issues: []fsm.IssueView{{
		Key: fsm.IssueKey(fmt.Sprintf("acme/widgets#%d", n)), Open: true, Labels: []fsm.Label{fsm.LabelTask},
		Nonce: strings.Repeat(string(rune('a'+n%26)), 8),
	}}}
}
