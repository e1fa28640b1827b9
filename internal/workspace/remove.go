package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"retake/internal/safefile"
)

// Remove takes a task's folder away, with whatever is in it; a missing one is fine.
func (w *Workspaces) Remove(ctx context.Context, nonce string) error {
	op := "remove " + nonce
	if err := checkNonce(op, nonce); err != nil {
		return err
	}
	lock, err := w.lockTask(ctx, nonce)
	if err != nil {
		return err
	}
	defer lock.unlockAndRemove()
	t := w.task(op, nonce, lock)
	// The record first: what is half removed is no checkout any more.
	if err := os.Remove(t.file()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return system(op, err)
	}
	return system(op, errors.Join(t.unmount(), safefile.RemoveAll(t.dir)))
}

// Found lists the nonces of the tasks that are there, sorted.
func (w *Workspaces) Found() ([]string, error) {
	nonces, err := w.nonces()
	if err != nil {
		return nil, system("look at the checkouts", err)
	}
	return nonces, nil
}

// Sweep removes the tasks that an earlier process left and nobody wants: those that were found and are not in
// keep. Who asks what is wanted after it has looked what is there removes nothing that another director makes
// meanwhile. It goes on after a failure; removed is sorted as found is, and true also beside an error.
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
		w.log.Info("orphan removed", zap.String("task", nonce))
	}
	return removed, errors.Join(failures...)
}

// nonces lists the tasks that have a folder or a lock file, sorted. Names that are no nonces are not ours.
func (w *Workspaces) nonces() ([]string, error) {
	var all []string
	for _, from := range []struct{ dir, prefix string }{{"tasks", ""}, {"locks", "task-"}} {
		entries, err := os.ReadDir(filepath.Join(w.dir, from.dir))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if nonce, ok := strings.CutPrefix(e.Name(), from.prefix); ok && nonceForm.MatchString(nonce) {
				all = append(all, nonce)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
