package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// removeLeftovers removes the leftovers of demos that were killed before they could clean up. The name of a run's
// directory contains its fleet. The directory's lock is free only if the run's process is gone.
func removeLeftovers(ctx context.Context, n *progressLog) error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"demo-*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		lock, err := os.Open(filepath.Join(dir, "lock"))
		if err != nil {
			continue // owned by another program, or not created yet
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			n.print("removing the leftovers of an earlier demo in %s", dir)
			errs = append(errs, removeLeftover(ctx, dir))
		}
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}

func removeLeftover(ctx context.Context, dir string) error {
	runtime, err := os.ReadFile(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	h, err := openHost(ctx, string(runtime), strings.TrimPrefix(filepath.Base(dir), dirPrefix), dir)
	if err != nil {
		return err
	}
	return errors.Join(h.Clear(ctx), h.Close(), os.RemoveAll(dir))
}
