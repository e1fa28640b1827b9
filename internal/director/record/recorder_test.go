package record

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/inforce"
	"retake/internal/fsm"
)

const key = fsm.IssueKey("acme/widgets#21")

var (
	ofKey = fsm.OfTask{Task: key}
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newTestRecorder returns a recorder of a machine with one queued task, and its writer. in is the setup in force.
func newTestRecorder(t *testing.T, dir string, in *inforce.Setup) (*Recorder, *fsm.Machine, *audit.Writer) {
	t.Helper()
	m := fsm.New(fsm.Config{})
	m.Apply(noon, fsm.TaskQueued{Task: key, Nonce: "k3v9qx2m", Title: "Parse dates"})
	w := audit.Open(dir, audit.Options{})
	c, _, err := New(m, Options{
		Out: w, Dir: dir, RunID: "run_1", Setup: func() *inforce.Setup { return in }, Log: zap.NewNop(),
	})
	must(t, err)
	return c, m, w
}

func defaults(t *testing.T) *inforce.Setup {
	t.Helper()
	in, err := inforce.New(config.Default(), nil)
	must(t, err)
	return in
}

// TestAuditShowsTheRecordAndNotWhatCameAfter checks that the audit shows the journal's state, although the live machine
// is ahead of the journal.
func TestAuditShowsTheRecordAndNotWhatCameAfter(t *testing.T) {
	dir := t.TempDir()
	c, m, w := newTestRecorder(t, dir, defaults(t))
	records := []fsm.Record{
		{At: noon, Facts: fsm.FactList{fsm.UsageCounted{OfTask: ofKey, PaidCalls: new(int64(3))}}},
		{At: noon, Facts: fsm.FactList{
			fsm.TaskRenamed{OfTask: ofKey, Title: "Parse times"},
			fsm.UsageCounted{OfTask: ofKey, PaidCalls: new(int64(7))},
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

// TestAnAttemptKeepsItsCourse checks that an attempt's progress is recorded with the stages with which the attempt
// began. A changed configuration applies to the next attempt.
func TestAnAttemptKeepsItsCourse(t *testing.T) {
	first := defaults(t)
	second := *first
	first.StagePlans = []wire.StagePlan{{Name: "PLAN"}, {Name: "CODE"}, {Name: "VALIDATE"}}
	second.StagePlans = []wire.StagePlan{{Name: "VALIDATE"}, {Name: "CODE"}}
	c, _, w := newTestRecorder(t, t.TempDir(), first)
	defer func() { must(t, w.Close(t.Context())) }()
	for n, in := range []*inforce.Setup{first, &second} {
		c.record(fsm.Record{At: noon, Facts: fsm.FactList{fsm.AttemptBegan{OfTask: ofKey, N: n + 1}}})
		c.Starts(fsm.Effect{Worker: fsm.AttemptID("k3v9qx2m", n+1), Task: key, Attempt: n + 1},
			wire.Plan{ValidateOnly: true}, in)
		c.follow(&second)
		for stage, want := range []map[string]string{
			{"CODE": "[PLAN]", "VALIDATE": "[PLAN CODE]", wire.StageDone: "[PLAN CODE VALIDATE]"},
			{"CODE": "[VALIDATE]", wire.StageDone: "[VALIDATE CODE]"},
		}[n] {
			c.record(fsm.Record{At: noon, Facts: fsm.FactList{fsm.ReportAccepted{OfTask: ofKey, Stage: stage}}})
			if got := fmt.Sprint(c.stats[key].StagesCompleted); got != want {
				t.Errorf("attempt %d at %s has completed %s, want %s", n+1, stage, got, want)
			}
		}
	}
	if _, kept := c.courses.Load(fsm.AttemptID("k3v9qx2m", 1)); kept {
		t.Error("the course of an ended attempt remains")
	}
}

// TestAnEndThatIsReadAgainErasesNothing checks an interrupted stop, which runs again when the container is already
// gone.
func TestAnEndThatIsReadAgainErasesNothing(t *testing.T) {
	one := 1
	m := audit.Meta{}
	addEnd(&m, audit.Meta{
		Stage: "CODE", ExitCode: &one, Signal: "SIGKILL", OOM: true, Usage: &wire.Usage{PaidCalls: 2},
		Tried: []string{"two rounds"}, Notes: []string{"program: go"},
	})
	before := m
	addEnd(&m, audit.Meta{})
	if !reflect.DeepEqual(m, before) {
		t.Errorf("was\n%+v\nand is\n%+v", before, m)
	}
	two := 2
	if addEnd(&m, audit.Meta{Stage: "VALIDATE", ExitCode: &two}); m.Stage != "VALIDATE" || *m.ExitCode != 2 {
		t.Errorf("%+v; want the latest values", m)
	}
}
