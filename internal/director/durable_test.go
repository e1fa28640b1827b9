package director

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/config"
	"retake/internal/fsm"
)

// What is written about a record is what held then: the live machine is ahead of the journal, by what is on its way there.
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
	d.configured.Store(first)
	c, _, err := d.newRecorder(m)
	must(t, err)
	records := []fsm.Record{
		{At: at, Facts: fsm.FactList{fsm.UsageCounted{OfTask: fsm.OfTask{Task: key}, PaidCalls: new(int64(3))}}},
		{At: at, Facts: fsm.FactList{fsm.TaskRenamed{OfTask: fsm.OfTask{Task: key}, Title: "Parse times"}, fsm.UsageCounted{OfTask: fsm.OfTask{Task: key}, PaidCalls: new(int64(7))}}},
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
