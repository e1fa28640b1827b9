package workspace

import (
	"context"
)

// patchBytes bounds a patch: it is for people to read.
const patchBytes = 1 << 20

// Patch returns what a task's work tree changes against the base of its checkout, as a unified diff: what an attempt left,
// delivered or not. Binary files are
// only named, and after 1 MiB it is cut. No worker may be in the checkout.
func (w *Workspaces) Patch(ctx context.Context, nonce string) (string, error) {
	op := "patch " + nonce
	if err := checkNonce(op, nonce); err != nil {
		return "", err
	}
	lock, err := w.lockTask(ctx, nonce)
	if err != nil {
		return "", err
	}
	defer lock.unlock()
	t := w.task(nonce, lock)
	rec, err := w.settled(ctx, op, t)
	if err != nil {
		return "", err
	}
	tree, err := w.snapshot(ctx, op, t, rec.BaseSHA)
	if err != nil {
		return "", err
	}
	patch, err := w.git.run(ctx, call{
		op: op, dir: t.dir, gitDir: t.gitDir(), lock: t.lock,
		most: patchBytes, args: []string{"diff-tree", "--patch", "--no-color", "--no-ext-diff", "--no-textconv", rec.BaseSHA, tree},
	})
	return patch, err
}
