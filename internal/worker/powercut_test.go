package worker

import (
	"os"
	"path/filepath"
	"testing"

	"retake/internal/safefile"
	"retake/internal/sys/powercut"
)

// TestSuccessIsSynced cuts the power after the worker has reported success. Files that the agent wrote without a sync
// must be complete.
func TestSuccessIsSynced(t *testing.T) {
	disk := powercut.New(t)
	p, bus := testPlan(t), newFakeBus()
	p.Workdir = filepath.Join(disk.Dir, "checkout")
	if err := os.Mkdir(p.Workdir, 0o755); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(p.Workdir, "work.go")
	r := &fakeRunner{script: []exit{{code: 0}, {code: 0}}, onRun: func(command) {
		if err := os.WriteFile(work, []byte("package work"), 0o644); err != nil {
			t.Error(err)
		}
	}}
	w := testWorker(t, p, bus, r)
	w.syncDisk = safefile.SyncDisk
	if code := w.run(t.Context()); code != ExitResult {
		t.Fatalf("exit %d", code)
	}
	disk.Cut()
	disk.Restore()
	if got, err := os.ReadFile(work); err != nil || string(got) != "package work" {
		t.Errorf("%q, %v", got, err)
	}
}
