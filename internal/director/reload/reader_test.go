package reload

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/director/inforce"
	"retake/internal/worktree"
)

// newReader returns a reader that rereads the configuration of next.
func newReader(t *testing.T, file string, next func() (config.Config, config.Problems)) *Reader {
	t.Helper()
	c := config.Default()
	first, err := First(c, c.Director.DataDir, c.Director.SharedDir)
	if err != nil {
		t.Fatal(err)
	}
	r := &Reader{
		Config: c, InForce: &inforce.Current{}, Again: next, File: file, LongestWatchdog: c.Timeouts.WorkerWatchdog,
		Image: func() string { return "" }, LeaveOut: func(worktree.Globs) {}, Log: zap.NewNop(),
	}
	r.InForce.Store(first)
	r.Begin()
	return r
}

func TestRereadPutsAChangeInForce(t *testing.T) {
	c := config.Default()
	r := newReader(t, "", func() (config.Config, config.Problems) { return c, nil })
	before := r.InForce.Load()
	if read := r.Reread("test"); len(read.Changed) > 0 || r.InForce.Load() != before {
		t.Errorf("without a change: %+v", read)
	}
	c.Director.MaxWorkers++
	read := r.Reread("test")
	if now := r.InForce.Load(); !slices.Equal(read.Changed, []string{"director.max_workers"}) ||
		now.Director.MaxWorkers != c.Director.MaxWorkers || now.Change == nil {
		t.Errorf("after a change: %+v", read)
	}
	if r.Problem() != "" {
		t.Errorf("problem: %s", r.Problem())
	}
	c.Timeouts.WorkerWatchdog *= 2
	before = r.InForce.Load()
	if read := r.Reread("test"); len(read.Problems) != 1 || r.InForce.Load() != before || r.Problem() == "" {
		t.Errorf("a watchdog beyond the workers' keys: %+v", read)
	}
}

// The reader notices a replaced file by its content.
func TestOnlyChangedFilesAreReread(t *testing.T) {
	file := filepath.Join(t.TempDir(), "retake.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	readings := 0
	write("a")
	r := newReader(t, file, func() (config.Config, config.Problems) { readings++; return config.Default(), nil })
	r.Reread(atStart)
	r.rereadChanged()
	if write("b"); readings != 1 {
		t.Errorf("%d readings, want 1", readings)
	}
	if r.rereadChanged(); readings != 2 {
		t.Errorf("%d readings, want 2", readings)
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if r.rereadChanged(); readings != 3 {
		t.Errorf("%d readings after the file is gone, want 3", readings)
	}
}
