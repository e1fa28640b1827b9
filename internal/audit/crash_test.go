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

	"retake/internal/safefile"
)

const crashDir = "AUDIT_CRASH_DIR"

// TestCrashingWriter is the subprocess of TestKilled. Otherwise it is skipped.
func TestCrashingWriter(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("run by TestKilled")
	}
	w := Open(dir, Options{MaxEvents: 64 << 10, Keep: Keep{Attempts: 20, EventFiles: 2}})
	for i := 0; ; i++ {
		id := fmt.Sprintf("k%d-1", i)
		w.Attempt(id, func(m *Meta) { m.Issue = issue })
		w.Transition(Transition{AttemptID: id, Issue: issue})
		finish(w, someEnd(id, 1), someOutput())
		task := someTask()
		task.PaidCallsUsed = i + 1
		w.Task(task, NewLastFailure(task, someFailure(), "m", "tail"))
		for range 20 {
			classify(w, i)
		}
		_ = WriteReport(dir, ReportData{Failed: someFailedTasks(5)}, func(s string) string { return s })
		flushed(w)
	}
}

// A writer killed at any time leaves complete documents, and the next writer continues with them.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	for round := range 5 {
		child := exec.Command(os.Args[0], "-test.run", "^TestCrashingWriter$")
		child.Env = append(os.Environ(), crashDir+"="+dir)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); !exists(filepath.Join(dir, stateDir, "acme_widgets_21", failureFile)) &&
			time.Since(began) < 30*time.Second; {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(100+37*round) * time.Millisecond)
		_ = child.Process.Kill()
		_ = child.Wait()

		documents := documentsIn(t, dir)
		s, err := Load(dir)
		if err != nil || len(s.Problems) > 0 {
			t.Fatalf("%v, %v", err, s.Problems)
		}
		if documents < 3 || len(s.Tasks) != 1 {
			t.Errorf("round %d: %d documents, %d tasks: the writer has written nothing", round, documents, len(s.Tasks))
		}
	}
	w, logs := reopened(t, dir, Options{Now: func() time.Time { return time.Now().Add(2 * abandoned) }}, realDisk)
	classify(w, 1)
	closed(t, w)
	if logs.Len() > 0 || w.Counts().WriteErrors > 0 {
		t.Errorf("%v", logs.All())
	}
	for _, e := range document[Index](t, dir, "audits/index.json").Attempts {
		if !exists(filepath.Join(dir, auditsDir, e.AttemptID, metaFile)) {
			t.Errorf("the index has %s, but the disk does not", e.AttemptID)
		}
	}
	lines(t, filepath.Join(dir, eventsFile))
	for _, where := range []string{"", "*", "*/*"} {
		if left, _ := filepath.Glob(filepath.Join(dir, where, "*"+safefile.TempMark+"*")); len(left) > 0 {
			t.Errorf("left over: %v", left)
		}
	}
}

// documentsIn counts the documents below a directory. It checks that each document and each whole line is JSON.
func documentsIn(t *testing.T, dir string) (documents int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !e.Type().IsRegular() || strings.Contains(path, safefile.TempMark) || strings.Contains(path, removing) {
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
	if err != nil {
		t.Fatal(err)
	}
	return documents
}
