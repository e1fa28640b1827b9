package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/tools/txtar"

	"retake/internal/testbed"
)

// cacheDir creates the build cache for workers, which later runs reuse. Without a home directory, the cache lasts
// for this run only.
func cacheDir(temporary string) (cache, error) {
	var c cache
	base, err := os.UserCacheDir()
	if os.Getuid() == 0 {
		base, err = "/var/cache", nil // workers that are plain processes cannot enter root's home
	}
	if c.stays = err == nil; !c.stays {
		base = temporary
	}
	c.dir = filepath.Join(base, "retake-demo", "go-build")
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return c, fmt.Errorf("demo: build cache: %w", err)
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return c, fmt.Errorf("demo: build cache: %w", err)
	}
	c.cold = len(entries) == 0
	if os.Getuid() == 0 {
		uid, gid := testbed.WorkerUser()
		if err := os.Chown(c.dir, uid, gid); err != nil {
			return c, fmt.Errorf("demo: build cache: %w", err)
		}
		return c, nil
	}
	probe, err := os.CreateTemp(c.dir, "probe-*")
	if err != nil {
		return c, fmt.Errorf("demo: build cache: %w; it belongs to another user: remove it", err)
	}
	return c, errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// cache is Go's build cache for workers.
type cache struct {
	dir   string
	stays bool // later runs reuse it
	cold  bool // the cache is empty
}

// fillBuildCache builds Go's standard library into an empty cache. Otherwise four workers would build all of it at
// the same time, and exceed the timeouts of their stages on a small machine. A lock serializes demos that start at the
// same time, so that the second demo finds the library already built.
func (s *world) fillBuildCache(ctx context.Context) error {
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(s.cache.dir), "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("demo: build cache: %w", err)
	}
	defer lock.Close()
	for taken := true; taken; {
		switch err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			taken = false
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("demo: build cache: %w", err)
		default:
			select {
			case <-time.After(pollEvery):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	dir := filepath.Join(s.dir, "warm")
	if err := testbed.WriteFiles(dir, widgetFiles()); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"build", "-o", os.DevNull, "./..."},
		{"vet", "./..."},
		{"test", "-run", "^$", "./..."},
	} {
		if err := s.goTool(ctx, dir, args); err != nil {
			return err
		}
	}
	return s.cache.chownToWorkers()
}

// chownToWorkers gives the cache to the workers' user, if that differs from this process's user.
func (c cache) chownToWorkers() error {
	if os.Getuid() != 0 {
		return nil
	}
	uid, gid := testbed.WorkerUser()
	err := filepath.WalkDir(c.dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(path, uid, gid)
		}
		if errors.Is(err, fs.ErrNotExist) { // a worker of another demo has just replaced the file
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("demo: build cache: %w", err)
	}
	return nil
}

// goTool runs the workers' Go with the workers' settings, but outside a worker.
func (s *world) goTool(ctx context.Context, dir string, args []string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.tools.root, "bin", "go"), args...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + os.TempDir(), "PATH=" + os.Getenv("PATH"), "GOCACHE=" + s.cache.dir}
	for name, value := range s.goEnv() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("demo: go %s: %w\n%s", args[0], err, said)
	}
	return nil
}

// widgetFiles returns the files of the demo's repository.
func widgetFiles() map[string]string {
	files := map[string]string{}
	for _, f := range txtar.Parse(widgets).Files {
		files[f.Name] = string(f.Data)
	}
	return files
}
