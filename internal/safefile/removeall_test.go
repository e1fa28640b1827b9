package safefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// nest creates a chain of depth nested directories, and a file in the last.
func nest(t testing.TB, dir, name string, depth int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for i := 0; err == nil && i < depth; i++ {
		if err = unix.Mkdirat(at, name, 0o755); err == nil {
			var next int
			next, err = unix.Openat(at, name, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			_ = unix.Close(at)
			at = next
		}
	}
	if err == nil {
		err = unix.Symlinkat("/", at, "link")
	}
	_ = unix.Close(at)
	if err != nil {
		t.Fatal(err)
	}
}

// memoryDir returns a directory in memory if possible. Creating so many directories takes a second there, and a
// minute on a busy disk.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "safefile-")
	if err != nil {
		t.Log("on disk: " + err.Error())
		return t.TempDir()
	}
	t.Cleanup(func() { _ = RemoveAll(dir) })
	return dir
}

func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestRemoveAllOfDeepFolders removes directories so deep that one descriptor per level would exceed a process's limit.
func TestRemoveAllOfDeepFolders(t *testing.T) {
	for _, c := range []struct {
		name  string
		depth int
	}{{"d", 20_000}, {strings.Repeat("n", 255), 1_000}} {
		dir := filepath.Join(memoryDir(t), "deep")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		nest(t, dir, c.name, c.depth)
		before, most, stop, done := descriptors(t), 0, make(chan bool), make(chan bool)
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					most = max(most, descriptors(t))
				}
			}
		}()
		began := time.Now()
		err := RemoveAll(dir)
		took := time.Since(began)
		close(stop)
		<-done
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(dir); !os.IsNotExist(err) {
			t.Errorf("still there: %v", err)
		}
		t.Logf("removed %d directories in %s, with at most %d more descriptors", c.depth, took.Round(time.Millisecond),
			most-before)
		if most > before+openLevels+6 || took > time.Minute {
			t.Errorf("%d descriptors, %d before; %s", most, before, took)
		}
	}
}

// TestRemoveAllOfHostileFolders removes directories without permissions, special files, a link to a file that must
// stay, and names that RemoveAll itself gives to moved directories.
func TestRemoveAllOfHostileFolders(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "tree")
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, folder := range []string{"a/b/c", "a/full", "closed/in/it", ".removed-0000000000000000-1/x"} {
		if err := os.MkdirAll(path(folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 * batch {
		if err := os.WriteFile(path(fmt.Sprintf("a/full/%d", i)), nil, 0o444); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Symlink(filepath.Dir(outside), path("a/b/out")), syscall.Mkfifo(path("a/pipe"), 0),
		os.WriteFile(path("a/line\nbreak\xff"), nil, 0),
		os.Chmod(path("closed/in"), 0), os.Chmod(path("closed"), 0), os.Chmod(path("a/b"), 0o555),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(outside), link); err != nil {
		t.Fatal(err)
	}
	if err := RemoveAll(link); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("outside the tree: %v", err)
	}
	if err := RemoveAll(dir); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// TestRemoveAllBesideAnother: another process, such as an agent that has not ended yet, may remove entries at
// the same time. Missing entries are not an error.
func TestRemoveAllBesideAnother(t *testing.T) {
	top := memoryDir(t)
	for range 8 {
		dir := filepath.Join(top, "tree")
		for i := range 100 {
			for j := range 10 {
				if err := os.MkdirAll(filepath.Join(dir, strconv.Itoa(i), strconv.Itoa(j), "deeper"),
					0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		errs := make(chan error)
		for range 4 {
			go func() { errs <- RemoveAll(dir) }()
		}
		for range 4 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the directory still exists: %v", err)
		}
	}
}

// TestRemoveAllWithoutNoReplace: a file system may not support RENAME_NOREPLACE, and an old kernel has no renameat2(2).
func TestRemoveAllWithoutNoReplace(t *testing.T) {
	defer func() { renameat2 = unix.Renameat2 }()
	for _, missing := range []error{unix.EINVAL, unix.ENOSYS} {
		renameat2 = func(int, string, int, string, uint) error { return missing }
		dir := filepath.Join(t.TempDir(), "deep")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		nest(t, dir, "d", 5*openLevels)
		if err := RemoveAll(dir); err != nil {
			t.Errorf("%v: %v", missing, err)
		}
		if _, err := os.Lstat(dir); !os.IsNotExist(err) {
			t.Errorf("%v: still there: %v", missing, err)
		}
	}
}
