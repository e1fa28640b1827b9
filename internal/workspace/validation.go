package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"retake/internal/safefile"
)

// ErrNotValidated is wrapped when a work tree is not what the attempt was given that validated it.
var ErrNotValidated = errors.New("workspace: not what was validated")

// validation is what an attempt was given to validate.
type validation struct {
	Attempt string `json:"attempt"`
	Tree    string `json:"tree"`
}

// Validation makes what Deliver would commit of a task's work tree, as a folder of its own that an attempt may
// do with as it likes: the files of that tree, without what git ignores or the agent kept for itself, with
// times of now. Tree names it: DeliverRequest.Validated compares. For one attempt it is the same tree for ever,
// whatever becomes of the checkout. No worker may be in the checkout, nor in the folder of an earlier attempt.
func (w *Workspaces) Validation(ctx context.Context, nonce, attempt string) (path, tree string, err error) {
	op := "copy " + nonce
	if err := checkNonce(op, nonce); err != nil {
		return "", "", err
	}
	tree, err = mended(ctx, w, op, nonce, func() (string, error) { return w.validationOnce(ctx, op, nonce, attempt) })
	if err != nil {
		return "", "", err
	}
	w.log.Info("work copied for its validation", zap.String("task", nonce), zap.String("worker", attempt),
		zap.String("tree", tree))
	return w.task(op, nonce, nil).validation(), tree, nil
}

func (w *Workspaces) validationOnce(ctx context.Context, op, nonce, attempt string) (tree string, err error) {
	t, rec, err := w.lockCheckout(ctx, op, nonce)
	if err != nil {
		return "", err
	}
	defer t.lock.unlock()
	if rec.Validation == nil || rec.Validation.Attempt != attempt {
		if tree, err = w.snapshot(ctx, t, rec.known()); err != nil {
			return "", err
		}
		rec.Validation = &validation{attempt, tree}
		if err := t.save(rec); err != nil { // before anybody can see the folder
			return "", system(op, err)
		}
	}
	return rec.Validation.Tree, system(op, w.fillValidation(ctx, t, rec.Validation.Tree))
}

func (w *Workspaces) fillValidation(ctx context.Context, t task, tree string) error {
	dir, index := t.validation(), t.validation()+".index"
	if err := errors.Join(removeStaleLocks(t.gitDir()), safefile.RemoveAll(dir), safefile.RemoveAll(index),
		os.Mkdir(dir, 0o755)); err != nil {
		return err
	}
	readTree := t.call("read-tree", "-m", "-u", "--no-recurse-submodules", tree)
	readTree.env = []string{"GIT_WORK_TREE=" + dir, "GIT_INDEX_FILE=" + index}
	if _, err := w.git.run(ctx, readTree); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	err = errors.Join(ensureRetakeDir(root), root.Close(), safefile.RemoveAll(index))
	if err == nil && w.owner != nil && os.Geteuid() == 0 {
		err = chownTree(ctx, dir, *w.owner)
	}
	return err
}

// DropValidation removes the folder that Validation made; a missing one is fine. What was validated stays known.
func (w *Workspaces) DropValidation(ctx context.Context, nonce string) error {
	op := "drop the copy of " + nonce
	if err := checkNonce(op, nonce); err != nil {
		return err
	}
	if _, err := os.Lstat(w.task(op, nonce, nil).validation()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	lock, err := w.lockTask(ctx, nonce)
	if err != nil {
		return err
	}
	defer lock.unlock()
	return system(op, safefile.RemoveAll(w.task(op, nonce, lock).validation()))
}

func (t task) validation() string { return filepath.Join(t.dir, "validation") }

// checkValidated refuses a tree that is not what an attempt has validated.
func (r *record) checkValidated(op, attempt, tree string) error {
	switch v := r.Validation; {
	case attempt == "", v != nil && v.Attempt == attempt && v.Tree == tree:
		return nil
	case v == nil || v.Attempt != attempt:
		return &Error{
			Kind: Permanent, Op: op, Detail: "nothing is known of what " + attempt + " has validated",
			Err: ErrNotValidated,
		}
	default:
		return &Error{Kind: Permanent, Op: op, Detail: "the work is tree " + tree + ", " + attempt + " has validated " +
			v.Tree, Err: ErrNotValidated}
	}
}
