package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// sweep removes what demos have left that were killed before they could do it themselves. A run's folder names its fleet, and
// its lock is free exactly if its process is gone.
func sweep(ctx context.Context, n *narrator) error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"demo-*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		lock, err := os.Open(filepath.Join(dir, "lock"))
		if err != nil {
			continue // not ours, or not there yet
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			n.say("removing what an earlier demo left in %s", dir)
			errs = append(errs, sweepOne(ctx, dir))
		}
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}

func sweepOne(ctx context.Context, dir string) error {
	runtime, err := os.ReadFile(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	h, err := openHost(ctx, string(runtime), strings.TrimPrefix(filepath.Base(dir), dirPrefix), dir)
	if err != nil {
		return err
	}
	return errors.Join(h.clear(ctx), h.close(), os.RemoveAll(dir))
}
