package director

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/inforce"
	"retake/internal/fsm"
)

// What is written about a record is what held then: the live machine is ahead of the journal, by what is on its
// way there.
func TestAuditShowsTheRecordAndNotWhatCameAfter(t *testing.T) {
	const key = fsm.IssueKey("acme/widgets#21")
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	m := fsm.New(fsm.Config{})
	m.Apply(at, fsm.TaskQueued{Task: key, Nonce: "k3v9qx2m", Title: "Parse dates"})
	dir := t.TempDir()
	w := audit.Open(dir, audit.Options{})
	d := &daemon{config: config.Default(), audit: w, runID: "run_1", log: zap.NewNop()}
	d.config.Director.DataDir = dir
	first, err := d.newSetup(d.config, nil)
	must(t, err)
	d.inForce.Store(first)
	c, _, err := d.newRecorder(m)
	must(t, err)
	records := []fsm.Record{
		{At: at, Facts: fsm.FactList{fsm.UsageCounted{OfTask: fsm.OfTask{Task: key}, PaidCalls: new(int64(3))}}},
		{At: at, Facts: fsm.FactList{
			fsm.TaskRenamed{OfTask: fsm.OfTask{Task: key}, Title: "Parse times"},
			fsm.UsageCounted{OfTask: fsm.OfTask{Task: key}, PaidCalls: new(int64(7))},
		}},
	}
	m.Replay(records)
	c.record(records[0])
	must(t, w.Close(t.Context()))
	store, err := audit.Load(dir)
	must(t, err)
	if s := store.Tasks[0]; s.PaidCallsUsed != 3 || s.Title != "Parse dates" {
		t.Errorf("the first record shows %d paid calls of %q; want 3 of \"Parse dates\"", s.PaidCallsUsed, s.Title)
	}
}

// What an attempt has behind it is counted by the stages that it began with. Another configuration is that of
// the next one.
func TestAnAttemptKeepsItsCourse(t *testing.T) {
	const key = fsm.IssueKey("acme/widgets#21")
	of := fsm.OfTask{Task: key}
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	m := fsm.New(fsm.Config{})
	m.Apply(at, fsm.TaskQueued{Task: key, Nonce: "k3v9qx2m", Title: "Parse dates"})
	w := audit.Open(t.TempDir(), audit.Options{})
	defer func() { must(t, w.Close(t.Context())) }()
	d := &daemon{config: config.Default(), audit: w, runID: "run_1", log: zap.NewNop()}
	d.config.Director.DataDir = t.TempDir()
	first, err := d.newSetup(d.config, nil)
	must(t, err)
	second := *first
	first.StagePlans = []wire.StagePlan{{Name: "PLAN"}, {Name: "CODE"}, {Name: "VALIDATE"}}
	second.StagePlans = []wire.StagePlan{{Name: "VALIDATE"}, {Name: "CODE"}}
	d.inForce.Store(first)
	c, _, err := d.newRecorder(m)
	must(t, err)
	for n, in := range []*inforce.Setup{first, &second} {
		c.record(fsm.Record{At: at, Facts: fsm.FactList{fsm.AttemptBegan{OfTask: of, N: n + 1}}})
		c.starts(fsm.Effect{Worker: fsm.AttemptID("k3v9qx2m", n+1), Task: key, Attempt: n + 1},
			wire.Plan{ValidateOnly: true}, in)
		c.follow(&second)
		for stage, want := range []map[string]string{
			{"CODE": "[PLAN]", "VALIDATE": "[PLAN CODE]", wire.StageDone: "[PLAN CODE VALIDATE]"},
			{"CODE": "[VALIDATE]", wire.StageDone: "[VALIDATE CODE]"},
		}[n] {
			c.record(fsm.Record{At: at, Facts: fsm.FactList{fsm.ReportAccepted{OfTask: of, Stage: stage}}})
			if got := fmt.Sprint(c.stats[key].StagesCompleted); got != want {
				t.Errorf("attempt %d at %s has %s behind it, want %s", n+1, stage, got, want)
			}
		}
	}
	if _, kept := c.courses.Load(fsm.AttemptID("k3v9qx2m", 1)); kept {
		t.Error("the course of an attempt that is over is kept")
	}
}
