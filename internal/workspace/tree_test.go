package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func nothing(string) bool { return false }

// TestTooManyNames checks that a file with the maximum number of hard links is refused instead of copied.
func TestTooManyNames(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: this test creates 65,000 links")
	}
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{Dir: diskDir(t)})
	dir := checkout(t, w, o, nonceB).Path
	put(t, dir, "x", strings.Repeat("x", 1000))
	var err error
	for i := 0; err == nil && i < 70_000; i++ {
		err = os.Link(filepath.Join(dir, "x"), filepath.Join(dir, fmt.Sprint("x", i)))
	}
	if !errors.Is(err, unix.EMLINK) {
		t.Skipf("a file can have 70,000 names here: %v", err)
	}
	tooMuchSays(t, w, o, "a file has too many hard links")
}

// TestCopiesAreBounded: without hard links, holes stay holes and do not count, and copying stops at the limit.
func TestCopiesAreBounded(t *testing.T) {
	t.Parallel()
	src, other := diskDir(t), memoryDir(t)
	var here, there unix.Stat_t
	if err := errors.Join(unix.Stat(src, &here), unix.Stat(other, &there)); err != nil {
		t.Fatal(err)
	}
	if here.Dev == there.Dev {
		t.Skip("there is no other file system")
	}
	sparse(t, filepath.Join(src, "hole"), 1<<30)
	f, err := os.OpenFile(filepath.Join(src, "hole"), os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt([]byte("middle"), 1<<29)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	put(t, src, "empty", "")
	put(t, src, "small", "text")
	most := copyLimit{1 << 20, "checkout.quota"}
	dst := filepath.Join(other, "one")
	if _, _, err := stageTree(t.Context(), "op", src, dst, most, nothing); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dst, "hole"), &st); err != nil || st.Size != 1<<30 || st.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes that use %d: %v", st.Size, st.Blocks*512, err)
	}
	f, err = os.Open(filepath.Join(dst, "hole"))
	if err != nil {
		t.Fatal(err)
	}
	middle := make([]byte, 8)
	if _, err := f.ReadAt(middle, 1<<29-1); err != nil || string(middle) != "\x00middle\x00" {
		t.Errorf("in the middle: %q, %v", middle, err)
	}
	_ = f.Close()
	for name, want := range map[string]string{"empty": "", "small": "text"} {
		if got, err := os.ReadFile(filepath.Join(dst, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	put(t, src, "large", strings.Repeat("x", 2<<20))
	if _, _, err := stageTree(t.Context(), "op", src, filepath.Join(other, "two"), most, nothing); !errors.Is(err,
		ErrTooMuch) || !strings.Contains(err.Error(), "checkout.quota") {
		t.Errorf("beyond the limit: %v", err)
	}
}

// TestBaseBeyondTheLimits: Checkout fails before an attempt costs money. The error names the key, and a higher value
// solves the problem.
func TestBaseBeyondTheLimits(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, map[string]string{
		"a.txt": "one\n", "b/c/d/e.txt": strings.Repeat("x", 100_000),
		"f.txt": "two\n",
	})
	q := Request{Nonce: nonceB, Repo: repo, RemoteURL: o.bare, BaseBranch: "main"}
	for key, limits := range map[string]Limits{
		"checkout.max_files": {Files: 4}, "checkout.max_depth": {Depth: 2}, "checkout.max_bytes": {Bytes: 50_000},
		"checkout.max_work_bytes": {WorkBytes: 50_000},
	} {
		dir := t.TempDir()
		w := open(t, Options{Dir: dir, Limits: limits})
		refused := func(what string) {
			t.Helper()
			_, err := w.Checkout(t.Context(), q)
			wantKind(t, err, Permanent, key, "base branch alone")
			if !errors.Is(err, ErrLimitTooLow) || errors.Is(err, ErrTooMuch) {
				t.Errorf("%s, %s: %v", key, what, err)
			}
		}
		refused("new")
		refused("once more")
		w = open(t, Options{Dir: dir})
		checkout(t, w, o, nonceB)
		if err := w.Fresh(t.Context(), nonceB); err != nil {
			t.Fatal(err)
		}
		w = open(t, Options{Dir: dir, Limits: limits})
		refused("after a fresh start")
		w = open(t, Options{Dir: dir})
		if c := checkout(t, w, o, nonceB); c.Reused {
			t.Errorf("%s: %+v", key, c)
		}
	}
}

// diskDir creates a directory on a disk, because only disks limit names and links.
func diskDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "retake-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
