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

// Sweep removes the tasks that an earlier process left and nobody wants: those whose nonce is not in keep. No checkout may
// begin meanwhile. Names that are no nonces are not ours and stay. It goes on after a failure; removed is sorted and true
// also beside an error.
func (w *Workspaces) Sweep(ctx context.Context, keep []string) (removed []string, err error) {
	nonces, err := w.nonces()
	if err != nil {
		return nil, system("sweep", err)
	}
	var failures []error
	for _, nonce := range nonces {
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

// nonces lists the tasks that have a folder or a lock file, sorted.
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
