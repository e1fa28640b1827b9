package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// TestInterruptedMergeIsFinished: the process ended after any number of changes; whatever comes next finishes it.
func TestInterruptedMergeIsFinished(t *testing.T) {
	t.Parallel()
	nexts := []func(*testing.T, *Workspaces, origin){
		func(t *testing.T, w *Workspaces, o origin) { checkout(t, w, o, nonceB) },
		func(t *testing.T, w *Workspaces, o origin) { deliver(t, w, o, nonceB) },
		func(t *testing.T, w *Workspaces, o origin) { mustSync(t, w, o) },
	}
	for done := range 6 {
		t.Run(strconv.Itoa(done), func(t *testing.T) {
			t.Parallel()
			interrupt(t, done, nexts[done%len(nexts)])
		})
	}
}

func interrupt(t *testing.T, done int, next func(*testing.T, *Workspaces, origin)) {
	o := newOrigin(t, map[string]string{"both.txt": lines(nil), "dir/x": "x\n", "other/y": "y\n", "gone.txt": "x\n"})
	dir := t.TempDir()
	w := open(t, Options{Dir: dir})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, "both.txt", lines(map[int]string{1: "agent's"}))
	// A folder becomes a link to another one: done twice carelessly, it would remove there.
	if err := errors.Join(
		os.Remove(filepath.Join(o.clone, "gone.txt")), os.RemoveAll(filepath.Join(o.clone, "dir")),
		os.Symlink("other", filepath.Join(o.clone, "dir")), os.Rename(filepath.Join(o.clone, "other/y"),
			filepath.Join(o.clone, "other/x")),
	); err != nil {
		t.Fatal(err)
	}
	head := o.change(t, map[string]string{"both.txt": lines(map[int]string{8: "theirs"})})
	beginSync(t, w, o, head, done)

	w = open(t, Options{Dir: dir})
	next(t, w, o)
	sameTree(t, c.Path, map[string]string{
		"both.txt": lines(map[int]string{1: "agent's", 8: "theirs"}),
		"dir":      "-> other", "other/x": "y\n",
	})
	if again := checkout(t, w, o, nonceB); again.BaseSHA != head {
		t.Errorf("base %s, want %s", again.BaseSHA, head)
	}
}

// beginSync does what Sync does, up to a number of changes in the work tree.
func beginSync(t *testing.T, w *Workspaces, o origin, head string, done int) {
	t.Helper()
	ctx := t.Context()
	r, err := syncRequest(o).check("test")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := w.lockTask(ctx, nonceB)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.unlock()
	task := w.task("test", nonceB, lock)
	rec, err := task.load()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.fetchBase(ctx, repo, "main", r); err != nil {
		t.Fatal(err)
	}
	m, _, err := w.mergeBase(ctx, task, rec, head)
	if err != nil {
		t.Fatal(err)
	}
	rec.Merge = &m
	changes, err := w.changes(ctx, task, rec.Merge.Ours, rec.Merge.Merged)
	if err != nil || len(changes) < done {
		t.Fatal(err, changes)
	}
	if err := errors.Join(task.save(rec), w.stageMerged(ctx, task, rec.Merge.Merged, changes)); err != nil {
		t.Fatal(err)
	}
	// The deletions come first, as apply has them.
	slices.SortStableFunc(changes, func(a, b change) int {
		return boolInt(b.mode == modeNone) - boolInt(a.mode == modeNone)
	})
	a, err := newTreeUpdate(task, changes[:done])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.root.Close() }() // and the staging folder stays, as after a crash
	if err := a.apply(); err != nil {
		t.Fatal(err)
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
