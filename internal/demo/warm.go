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
)

// warm builds Go's standard library into an empty cache. Left to the workers, four of them would do it at the same time,
// each all of it, and run into the limits of their stages on a small machine. Demos that begin together do it one after the
// other; the second finds it done.
func (s *site) warm(ctx context.Context) error {
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
			case <-time.After(lookEvery):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	dir := filepath.Join(s.dir, "warm")
	if err := unpack(dir); err != nil {
		return err
	}
	for _, args := range [][]string{{"build", "-o", os.DevNull, "./..."}, {"vet", "./..."}, {"test", "-run", "^$", "./..."}} {
		if err := s.goTool(ctx, dir, args); err != nil {
			return err
		}
	}
	return s.cache.giveAway()
}

// giveAway makes the cache the workers', if they are somebody else: who may not enter root's home cannot warm it.
func (c cache) giveAway() error {
	if os.Getuid() != 0 {
		return nil
	}
	uid, gid := workerUser()
	err := filepath.WalkDir(c.dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(path, uid, gid)
		}
		if errors.Is(err, fs.ErrNotExist) { // the worker of another demo has replaced it
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("demo: build cache: %w", err)
	}
	return nil
}

// goTool runs the workers' Go as the workers do, but here.
func (s *site) goTool(ctx context.Context, dir string, args []string) error {
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

// unpack writes the files of the repository that the issues are about.
func unpack(dir string) error {
	for _, f := range txtar.Parse(widgets).Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, f.Data, 0o644)); err != nil {
			return fmt.Errorf("demo: repository: %w", err)
		}
	}
	return nil
}
