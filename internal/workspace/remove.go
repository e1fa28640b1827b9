package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"go.uber.org/zap"

	"retake/internal/safefile"
)

// Remove removes a task's directory and everything in it. A missing task is not an error.
func (w *Workspaces) Remove(ctx context.Context, nonce string) error {
	t, err := w.tasks.lock(ctx, "remove "+nonce, nonce)
	if err != nil {
		return err
	}
	defer t.lock.unlockAndRemove()
	// Remove the record first, so that a half-removed task does not count as a checkout.
	if err := os.Remove(t.file()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return system(t.op, err)
	}
	return system(t.op, errors.Join(t.unmount(), safefile.RemoveAll(t.dir)))
}

// Found lists the nonces of existing tasks, sorted.
func (w *Workspaces) Found() ([]string, error) {
	nonces, err := w.tasks.nonces()
	return nonces, system("list checkouts", err)
}

// Sweep removes the tasks in found that are not in keep, because an earlier process left them behind. Callers must
// determine keep after found, so that tasks created by another director in the meantime survive. Sweep continues after
// a failure. removed has the order of found, and is valid even with an error.
func (w *Workspaces) Sweep(ctx context.Context, found, keep []string) (removed []string, err error) {
	var failures []error
	for _, nonce := range found {
		if slices.Contains(keep, nonce) {
			continue
		}
		if err := w.Remove(ctx, nonce); err != nil {
			failures = append(failures, err)
			continue
		}
		removed = append(removed, nonce)
		w.log.Info("removed orphaned checkout", zap.String("task", nonce))
	}
	return removed, errors.Join(failures...)
}
