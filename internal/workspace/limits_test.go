package workspace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// descend nests n directories of the same name, and calls last with a descriptor of the innermost directory.
func descend(t testing.TB, dir, name string, depth int, last func(at int) error) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for i := 0; err == nil && i < depth; i++ {
		if err = unix.Mkdirat(at, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			break
		}
		var next int
		next, err = unix.Openat(at, name, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = unix.Close(at)
		at = next
	}
	if err == nil && last != nil {
		err = last(at)
	}
	_ = unix.Close(at)
	if err != nil {
		t.Fatal(err)
	}
}

func touch(at int, name string) error {
	fd, err := unix.Openat(at, name, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func sparse(t testing.TB, path string, size int64) {
	t.Helper()
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(f.Truncate(size), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// peak returns the process's maximum memory since the last call, and its current memory, in bytes.
func peak(t testing.TB) (most, now int64) {
	t.Helper()
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		for name, to := range map[string]*int64{"VmHWM:": &most, "VmRSS:": &now} {
			if len(fields) > 1 && fields[0] == name {
				kib, _ := strconv.ParseInt(fields[1], 10, 64)
				*to = kib << 10
			}
		}
	}
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // resets the peak
		t.Fatal(err)
	}
	return most, now
}

// tooMuchSays wants Deliver to fail with ErrTooMuch and to name the limit.
func tooMuchSays(t *testing.T, w *Workspaces, o origin, texts ...string) {
	t.Helper()
	began := time.Now()
	_, err := w.Deliver(t.Context(), request(o, nonceB))
	took := time.Since(began)
	wantKind(t, err, Permanent, texts...)
	if !errors.Is(err, ErrTooMuch) {
		t.Errorf("not too much: %v", err)
	}
	t.Logf("refused after %s: %v", took.Round(time.Millisecond), err)
	if took > 30*time.Second {
		t.Error("late")
	}
	if _, err := os.Lstat(w.tasks.at("", nonceB).stage()); !os.IsNotExist(err) {
		t.Errorf("the staging folder remains: %v", err)
	}
}

// excesses are the cases of TestLimits.
var excesses = []struct {
	name   string
	limits Limits
	make   func(t *testing.T, dir string)
	text   string
}{
	{
		"sparse file of 8 TB",
		Limits{},
		func(t *testing.T, dir string) { sparse(t, filepath.Join(dir, "big"), 8<<40) }, "checkout.max_bytes",
	},
	{"sparse and ignored", Limits{}, func(t *testing.T, dir string) {
		put(t, dir, ".gitignore", "*\n")
		sparse(t, filepath.Join(dir, "big"), 8<<40)
	}, "checkout.max_bytes"},
	{"sparse files whose sizes overflow", Limits{}, func(t *testing.T, dir string) {
		for i := range 3 {
			sparse(t, filepath.Join(dir, fmt.Sprint(i)), 15<<40)
		}
	}, "checkout.max_bytes"},
	{"links to one file", Limits{Bytes: 10 << 20}, func(t *testing.T, dir string) {
		put(t, dir, "x", strings.Repeat("x", 1<<20))
		for i := range 20 {
			if err := os.Link(filepath.Join(dir, "x"), filepath.Join(dir, fmt.Sprint("x", i))); err != nil {
				t.Fatal(err)
			}
		}
	}, "checkout.max_bytes"},
	{"blocks without a size", Limits{Bytes: 10 << 20}, func(t *testing.T, dir string) {
		f, err := os.Create(filepath.Join(dir, "x"))
		if err == nil {
			err = errors.Join(unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 20<<20), f.Close())
		}
		if err != nil {
			t.Skip("fallocate: " + err.Error())
		}
	}, "checkout.max_bytes"},
	{
		"folders in each other",
		Limits{},
		func(t *testing.T, dir string) { descend(t, dir, "d", 5000, nil) },
		"checkout.max_depth",
	},
	{
		"long names in each other",
		Limits{},
		func(t *testing.T, dir string) { descend(t, dir, strings.Repeat("n", 255), 150, nil) },
		"checkout.max_path_bytes",
	},
	{"one full folder", Limits{Entries: 1000}, func(t *testing.T, dir string) {
		descend(t, dir, "full", 1, func(at int) (err error) {
			for i := 0; i < 1500 && err == nil; i++ {
				err = touch(at, fmt.Sprint(i))
			}
			return err
		})
	}, "checkout.max_entries"},
	{"many files", Limits{Files: 1000}, func(t *testing.T, dir string) {
		for i := range 20 {
			for j := range 60 {
				put(t, dir, fmt.Sprintf("%d/%d", i, j), "")
			}
		}
	}, "checkout.max_files"},
	{
		"a .gitignore of 100 MB",
		Limits{},
		func(t *testing.T, dir string) { sparse(t, filepath.Join(dir, ".gitignore"), 100<<20) }, ".gitignore",
	},
	{"a .gitattributes of 100 MB below", Limits{}, func(t *testing.T, dir string) {
		put(t, dir, "a/b/x", "")
		sparse(t, filepath.Join(dir, "a/b/.gitattributes"), 100<<20)
	}, "a/b/.gitattributes"},
	{
		"a file of 1 GiB with one line",
		Limits{WorkBytes: 1 << 29},
		func(t *testing.T, dir string) { sparse(t, filepath.Join(dir, "line.txt"), 1<<30) },
		"checkout.max_work_bytes",
	},
	{"in closed folders", Limits{}, func(t *testing.T, dir string) {
		put(t, dir, "closed/x", "")
		sparse(t, filepath.Join(dir, "closed/big"), 8<<40)
		if err := errors.Join(os.Chmod(filepath.Join(dir, "closed/big"), 0),
			os.Chmod(filepath.Join(dir, "closed"), 0)); err != nil {
			t.Fatal(err)
		}
	}, "checkout.max_bytes"},
}

// TestLimits: delivery, patch and the next attempt refuse a checkout beyond a limit before they read its files.
// Remove still works.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, c := range excesses {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t, map[string]string{"a.txt": "one\n"})
			w := open(t, Options{Limits: c.limits, Owner: &Owner{UID: os.Getuid(), GID: os.Getgid()}})
			put(t, checkout(t, w, o, nonceB).Path, "b.txt", "x")
			c.make(t, w.tasks.at("", nonceB).checkout())
			tooMuchSays(t, w, o, c.text)
			if _, err := w.Patch(t.Context(), nonceB); !errors.Is(err, ErrTooMuch) {
				t.Errorf("patch: %v", err)
			}
			_, err := w.Checkout(t.Context(), Request{Nonce: nonceB, Repo: repo, RemoteURL: o.bare, BaseBranch: "main"})
			if work := strings.Contains(c.text, "work"); !errors.Is(err, ErrTooMuch) && !work {
				t.Errorf("next attempt: %v", err)
			}
			if err := w.Fresh(t.Context(), nonceB); err != nil {
				t.Fatal(err)
			}
			put(t, checkout(t, w, o, nonceB).Path, "b.txt", "x")
			deliver(t, w, o, nonceB)
		})
	}
}

// TestWithinLimits: ignored files may be large, and special files are harmless.
func TestWithinLimits(t *testing.T) {
	o := newOrigin(t, map[string]string{"a.txt": "one\n", ".gitignore": "target/\n"})
	w := open(t, Options{Limits: Limits{WorkBytes: 1 << 20}})
	c := checkout(t, w, o, nonceB)
	put(t, c.Path, "b.txt", "x")
	put(t, c.Path, "target/x", "")
	sparse(t, filepath.Join(c.Path, "target/big"), 1<<30)
	for _, err := range []error{
		syscall.Mkfifo(filepath.Join(c.Path, "pipe"), 0o600), syscall.Mkfifo(filepath.Join(c.Path, "target/pipe"), 0),
		os.Symlink("/dev/zero", filepath.Join(c.Path, "zero")),
		os.Symlink("/proc/self/mem", filepath.Join(c.Path, "mem")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	at, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(at) }()
	t.Chdir(c.Path)
	if err := syscall.Bind(at, &syscall.SockaddrUnix{Name: "socket"}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod("device", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
		t.Log("without a device: " + err.Error())
	}
	deliver(t, w, o, nonceB)
	if got := o.files(t, branch); got != ".gitignore\na.txt\nb.txt\nmem\nzero" {
		t.Errorf("files: %q", got)
	}
	if used, err := w.Used(t.Context(), nonceB); err != nil || !used.Whole || used.Bytes < 4096 || used.Bytes > 1<<20 ||
		used.Files < 6 {
		t.Errorf("uses %+v of the disk: %v", used, err)
	}
	w.snapshots.limits.Files = 3
	if used, err := w.Used(t.Context(), nonceB); err != nil || used.Whole {
		t.Errorf("more files than the limit: %+v, %v", used, err)
	}
	if used, err := w.Used(t.Context(), nonceA); err != nil || used != (Usage{Whole: true}) {
		t.Errorf("without a checkout: %+v, %v", used, err)
	}
}

// TestMemoryOfManyLongPaths: 20,000 files have paths of nearly the maximum length. The default limits refuse them at
// once, and with higher limits git's list exceeds maxAnswer. Neither case may need much memory.
func TestMemoryOfManyLongPaths(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test creates 20,000 files")
	}
	if raced {
		t.Skip("the race detector needs memory itself, which would distort the measurement")
	}
	const folders, files, most = 5, 4000, 50 << 20 // the paths have 75 MB in total
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	dir := memoryDir(t)
	for _, limits := range []Limits{{}, {PathBytes: 4000, Depth: 2000}} {
		w := open(t, Options{Limits: limits, Dir: dir})
		c := checkout(t, w, o, nonceB)
		if !c.Reused {
			for i := range folders {
				descend(t, c.Path, strings.Repeat(string(rune('a'+i)), 250), 15, func(at int) (err error) {
					for j := 0; j < files && err == nil; j++ {
						err = touch(at, fmt.Sprintf("%010d", j))
					}
					return err
				})
			}
		}
		_, before := peak(t)
		began := time.Now()
		_, err := w.Deliver(t.Context(), request(o, nonceB))
		after, _ := peak(t)
		t.Logf("limits %+v: %d files, %s, memory grew by %d MiB at most: %.300v", limits, folders*files,
			time.Since(began).Round(time.Millisecond), (after-before)>>20, err)
		if !errors.Is(err, ErrTooMuch) || after-before > most {
			t.Errorf("memory grew by %d bytes, more than %d; %v", after-before, most, err)
		}
		// the next attempt fails in the same way, and the checkout stays for an attempt with other limits
		if limits == (Limits{}) {
			if _, err := w.Checkout(t.Context(), Request{
				Nonce: nonceB, Repo: repo, RemoteURL: o.bare,
				BaseBranch: "main",
			}); !errors.Is(err, ErrTooMuch) {
				t.Error(err)
			}
		}
	}
	w := open(t, Options{Dir: dir})
	if err := w.Remove(t.Context(), nonceB); err != nil {
		t.Error(err)
	}
}

// memoryDir returns a directory in memory if the machine supports it.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "workspace-")
	if err != nil {
		t.Log("on disk: " + err.Error())
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestNeighbourOfAHostileCheckout checks that Deliver works while git is busy with another checkout, until the
// deadline ends the busy git.
func TestNeighbourOfAHostileCheckout(t *testing.T) {
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	dir, limits := t.TempDir(), Limits{WorkBytes: 1 << 40, Bytes: 1 << 41}
	w := open(t, Options{Dir: dir, Limits: limits})
	sparse(t, filepath.Join(checkout(t, w, o, nonceA).Path, "big"), 1<<39)
	put(t, checkout(t, w, o, nonceB).Path, "b.txt", "x")
	ctx, cancel := context.WithCancel(t.Context())
	hostile := make(chan error, 1)
	q := request(o, nonceA)
	q.Branch = "hostile"
	go func() {
		_, err := w.Deliver(ctx, q)
		hostile <- err
	}()
	deliver(t, w, o, nonceB)
	if len(hostile) > 0 {
		t.Errorf("the hostile checkout did not keep git busy: %v", <-hostile)
	}
	cancel()
	wantKind(t, <-hostile, Transient)

	limits.GitTime = time.Second
	_, err := open(t, Options{Dir: dir, Limits: limits}).Deliver(t.Context(), q)
	if !errors.Is(err, ErrTooMuch) && !errors.Is(err, ErrSlow) ||
		!strings.Contains(fmt.Sprint(err), "checkout.git_seconds") {
		t.Error(err)
	}
}

// TestWithdrawnEndsGit: git on an 8 TB file ends with its context, without remaining files.
func TestWithdrawnEndsGit(t *testing.T) {
	o := newOrigin(t, map[string]string{"a.txt": "one\n"})
	w := open(t, Options{Limits: Limits{WorkBytes: 1 << 50, Bytes: 1 << 50}})
	sparse(t, filepath.Join(checkout(t, w, o, nonceB).Path, "big"), 8<<40)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() {
		_, err := w.Deliver(ctx, request(o, nonceB))
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("git was not busy: %v", err)
	case <-time.After(time.Second):
	}
	began := time.Now()
	cancel(errors.New("the issue was closed"))
	err := <-done
	if took := time.Since(began); took > 10*time.Second { // git's own deadline is minutes away
		t.Errorf("ended after %s", took)
	}
	wantKind(t, err, Transient, "the issue was closed")
	if _, err := os.Lstat(w.tasks.at("", nonceB).stage()); !os.IsNotExist(err) {
		t.Errorf("the staging folder remains: %v", err)
	}
}
