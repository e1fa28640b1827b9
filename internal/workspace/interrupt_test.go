package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// TestInterruptedMergeIsFinished ends the process after each number of changes. The next operation must finish the
// merge.
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
	// A directory becomes a link to another directory. Naively repeating the merge would remove files there.
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

// beginSync runs Sync up to a number of changes in the work tree.
func beginSync(t *testing.T, w *Workspaces, o origin, head string, done int) {
	t.Helper()
	ctx := t.Context()
	r, err := syncRequest(o).check("test")
	if err != nil {
		t.Fatal(err)
	}
	task, err := w.tasks.open(ctx, "test", nonceB)
	if err != nil {
		t.Fatal(err)
	}
	defer task.lock.unlock()
	if _, err := w.mirrors.head(ctx, repo, "main", r); err != nil {
		t.Fatal(err)
	}
	m, _, err := w.snapshots.mergeBase(ctx, task, head)
	if err != nil {
		t.Fatal(err)
	}
	task.rec.Merge = &m
	u, err := openUpdate(ctx, task, m)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = u.root.Close() }() // the staging directory stays, as after a crash
	// apply begins with the deletions.
	slices.SortStableFunc(u.changes, func(a, b change) int {
		return boolInt(b.mode == modeNone) - boolInt(a.mode == modeNone)
	})
	if len(u.changes) < done {
		t.Fatal(u.changes)
	}
	u.changes = u.changes[:done]
	if err := errors.Join(task.save(), u.apply()); err != nil {
		t.Fatal(err)
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
