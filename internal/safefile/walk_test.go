package safefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// seen records the entries of a walk.
type seen struct {
	paths []string
	deep  int
	count int
	most  int // descriptors
	left  int
	visit func(e *Entry) error
	t     testing.TB
}

func (s *seen) Visit(e *Entry) error {
	s.count++
	s.deep = max(s.deep, e.Depth)
	if s.count%1000 == 0 {
		s.most = max(s.most, descriptors(s.t))
	}
	if len(s.paths) < 10_000 && len(e.Path) < 1000 {
		s.paths = append(s.paths, string(e.Path))
	}
	var st unix.Stat_t
	if err := unix.Fstatat(e.Dir, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Ino != e.Stat.Ino {
		return fmt.Errorf("not in the directory of Dir: %w", err)
	}
	if s.visit != nil {
		return s.visit(e)
	}
	return nil
}

func (s *seen) Leave(*Entry) error {
	s.left++
	return nil
}

// makeDeep fills dir with wide directories, and with directories deeper than Walk keeps open.
func makeDeep(t *testing.T, dir string) {
	t.Helper()
	for i := range 3 {
		deep := strings.Repeat(fmt.Sprintf("d%d/", i), openLevels+5)
		for _, folder := range []string{deep + "a", deep + "b", strings.Repeat(fmt.Sprintf("d%d/", i), openLevels/2) +
			"c", "wide"} {
			if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
				t.Fatal(err)
			}
			for j := range 400 {
				if err := os.WriteFile(filepath.Join(dir, folder, fmt.Sprintf("file-%d-%d", i, j)), nil,
					0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestWalk compares Walk with the standard library for wide directories and directories deeper than openLevels.
func TestWalk(t *testing.T) {
	dir := memoryDir(t)
	makeDeep(t, dir)
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	var want []string
	folders := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(dir, path); name != "." {
			want = append(want, name)
			if d.IsDir() {
				folders++
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s := seen{t: t}
	if err := Walk(t.Context(), dir, &s); err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if slices.Sort(s.paths); !slices.Equal(s.paths, want) || s.left != folders {
		t.Errorf("%d paths, want %d; left %d directories, want %d", len(s.paths), len(want), s.left, folders)
	}
	skipped := seen{t: t, visit: func(e *Entry) error {
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	}}
	if err := Walk(t.Context(), dir, &skipped); err != nil || skipped.deep != 1 || skipped.count != 5 {
		t.Errorf("with directories skipped: %v, %d entries at depth %d", err, skipped.count, skipped.deep)
	}
	stop := errors.New("stop")
	ended := seen{t: t, visit: func(*Entry) error { return stop }}
	if err := Walk(t.Context(), dir, &ended); !errors.Is(err, stop) || ended.count != 1 {
		t.Errorf("%v after %d entries", err, ended.count)
	}
	if err := Walk(t.Context(), filepath.Join(dir, "link"), &seen{t: t}); err == nil {
		t.Error("a link was followed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Walk(ctx, dir, &seen{t: t}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

// TestWalkOfDeepFolders walks directories that are deeper than a process has descriptors, with paths longer than the
// system accepts.
func TestWalkOfDeepFolders(t *testing.T) {
	dir := filepath.Join(memoryDir(t), "deep")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	const depth = 10_000
	nest(t, dir, "d", depth)
	before, began := descriptors(t), time.Now()
	s := seen{t: t}
	if err := Walk(t.Context(), dir, &s); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d directories in %s, with at most %d more descriptors", depth, time.Since(began).Round(time.Millisecond),
		s.most-before)
	if s.deep != depth+1 || s.left != depth || s.most > before+openLevels+3 {
		t.Errorf("depth %d, %d left, %d descriptors (%d before)", s.deep, s.left, s.most, before)
	}
	if err := RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if now := descriptors(t); now != before {
		t.Errorf("%d descriptors, %d before", now, before)
	}
}

// TestWalkNoticesMoves: the parent is reopened as "..", which may be another directory after a move.
func TestWalkNoticesMoves(t *testing.T) {
	dir := t.TempDir()
	nest(t, dir, "d", 2*openLevels)
	s := seen{t: t, visit: func(e *Entry) error {
		if e.Depth == 2*openLevels {
			from := filepath.Join(dir, strings.Repeat("d/", openLevels-4)) // its parent is closed by now
			return os.Rename(from, filepath.Join(dir, "elsewhere"))
		}
		return nil
	}}
	if err := Walk(t.Context(), dir, &s); err == nil || !strings.Contains(err.Error(), "moved") {
		t.Errorf("%v", err)
	}
}
