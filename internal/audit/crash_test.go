package audit

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const crashDir = "AUDIT_CRASH_DIR"

// TestCrashingWriter is no test: it is the process that TestKilled kills.
func TestCrashingWriter(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("run by TestKilled")
	}
	w := Open(dir, Options{MaxEvents: 64 << 10, Keep: Keep{Attempts: 20, EventFiles: 2}})
	for i := 0; ; i++ {
		id := fmt.Sprintf("k%d-1", i)
		w.Begin(Meta{AttemptID: id, Issue: issue, Attempt: 1})
		w.Transition(Transition{AttemptID: id, Issue: issue})
		w.Finish(someBundle(id, 1))
		task := someTask()
		task.PaidCallsUsed, task.LastFailure = i+1, NewLastFailure(someFailure(), "m", "tail")
		w.Task(task)
		for range 20 {
			w.Classified(Classified{Attempt: i, Failure: someFailure()})
		}
		w.Report(ReportData{Failed: someFailedTasks(5)})
		flushed(w)
	}
}

// Killed at any moment, a writer leaves whole documents; the next one goes on with them.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	for round := range 5 {
		child := exec.Command(os.Args[0], "-test.run", "^TestCrashingWriter$")
		child.Env = append(os.Environ(), crashDir+"="+dir)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); !exists(filepath.Join(dir, stateDir, "acme_widgets_21", failureFile)) && time.Since(began) < 30*time.Second; {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(100+37*round) * time.Millisecond)
		_ = child.Process.Kill()
		_ = child.Wait()

		documents := 0
		walked := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if !e.Type().IsRegular() || strings.Contains(path, tempMark) || strings.Contains(path, removing) {
				return nil
			}
			data := text(t, path)
			switch filepath.Ext(path) {
			case ".json":
				if documents++; !json.Valid([]byte(data)) {
					t.Errorf("%s: %q", path, data)
				}
			case ".jsonl":
				for line := range strings.Lines(data) {
					if strings.HasSuffix(line, "\n") && !json.Valid([]byte(line)) {
						t.Errorf("%s: %q", path, line)
					}
				}
			}
			return nil
		})
		s, err := Load(dir)
		if err != nil || walked != nil || len(s.Problems) > 0 {
			t.Fatalf("%v, %v, %v", err, walked, s.Problems)
		}
		if documents < 3 || len(s.Tasks) != 1 {
			t.Errorf("round %d: %d documents, %d tasks: nothing was written yet", round, documents, len(s.Tasks))
		}
	}
	w, logs := reopened(t, dir, Options{Now: func() time.Time { return time.Now().Add(2 * abandoned) }}, realDisk)
	w.Classified(Classified{})
	closed(t, w)
	if logs.Len() > 0 || w.Counts().WriteErrors > 0 {
		t.Errorf("%v", logs.All())
	}
	for _, e := range document[Index](t, dir, "audits/index.json").Attempts {
		if !exists(filepath.Join(dir, auditsDir, e.AttemptID, metaFile)) {
			t.Errorf("the index has %s, the disk has not", e.AttemptID)
		}
	}
	lines(t, filepath.Join(dir, eventsFile))
	for _, where := range []string{"", "*", "*/*"} {
		if left, _ := filepath.Glob(filepath.Join(dir, where, "*"+tempMark+"*")); len(left) > 0 {
			t.Errorf("left over: %v", left)
		}
	}
}
