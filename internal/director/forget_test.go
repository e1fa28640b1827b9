package director

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"retake/internal/fsm"
)

// A checkout that cannot be removed at once is removed as soon as possible. Otherwise it would remain until the next
// start.
func TestForgetTriesAgain(t *testing.T) {
	t.Parallel()
	s := newHarness(t, nil)
	s.runtime.play = nil
	s.config.Containers.Runtime = "process"
	d, err := open(t.Context(), s.options(), false)
	must(t, err)
	defer d.close()
	folder := filepath.Join(d.config.SharedDir(), "tasks", "growing2")
	// Remove fails, because the record is a directory with content instead of a file.
	record := filepath.Join(folder, "task.json")
	must(t, os.MkdirAll(filepath.Join(record, "in", "the", "way"), 0o700))
	go func() {
		time.Sleep(500 * time.Millisecond)
		_ = os.RemoveAll(record)
	}()
	sess := d.newSession()
	sess.newAttempts()
	if out := sess.remains.Forget(t.Context(), fsm.Effect{
		Kind: fsm.DoForget, Task: "acme/widgets#1",
		Nonce: "growing2", Worker: "growing2-1",
	}); out.Failure != nil {
		t.Errorf("%+v", out.Failure)
	}
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory still exists: %v", err)
	}
}
