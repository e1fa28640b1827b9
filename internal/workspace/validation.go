package workspace

import (
	"context"
	"errors"
	"os"

	"go.uber.org/zap"

	"retake/internal/safefile"
)

// ErrNotValidated means that a work tree differs from the tree of the validating attempt.
var ErrNotValidated = errors.New("workspace: work differs from the validated tree")

// validation is the tree that an attempt received to validate.
type validation struct {
	Attempt string `json:"attempt"`
	Tree    string `json:"tree"`
}

// Validation writes the tree that Deliver would commit into a separate directory that an attempt may change freely. The
// directory has the files of that tree with current times, without ignored files or agents' own files. tree identifies
// the tree for DeliverRequest.Validated. An attempt always gets the same tree, even if the checkout changes in between.
// No worker may be in the checkout, or in the directory of an earlier attempt.
func (w *Workspaces) Validation(ctx context.Context, nonce, attempt string) (path, tree string, err error) {
	tree, err = onCheckout(ctx, w, "copy "+nonce, nonce, func(t *task) (string, error) {
		path = t.validation()
		if v := t.rec.Validation; v == nil || v.Attempt != attempt {
			shot, err := w.snapshots.take(ctx, t, t.rec.known())
			if err != nil {
				return "", err
			}
			t.rec.Validation = &validation{attempt, shot.tree}
			if err := t.save(); err != nil { // save the tree before the directory becomes visible
				return "", err
			}
		}
		tree := t.rec.Validation.Tree
		err := t.writeValidation(ctx, tree)
		if err == nil {
			err = w.trees.giveAway(ctx, path)
		}
		return tree, system(t.op, err)
	})
	if err != nil {
		return "", "", err
	}
	w.log.Info("copied the work for validation", zap.String("task", nonce), zap.String("worker", attempt),
		zap.String("tree", tree))
	return path, tree, nil
}

func (t *task) writeValidation(ctx context.Context, tree string) error {
	dir, index := t.validation(), t.validation()+".index"
	if err := errors.Join(t.removeStaleLocks(), safefile.RemoveAll(dir), safefile.RemoveAll(index),
		os.Mkdir(dir, 0o700)); err != nil {
		return err
	}
	if _, err := t.git.run(ctx, t.inTree(dir, index, "read-tree", "-m", "-u", "--no-recurse-submodules",
		tree)); err != nil {
		return err
	}
	return errors.Join(makeRetakeDir(dir), safefile.RemoveAll(index))
}

// DropValidation removes the directory created by Validation, if it exists. The record keeps the validated tree.
func (w *Workspaces) DropValidation(ctx context.Context, nonce string) error {
	op := "drop the copy of " + nonce
	t, err := w.tasks.find(op, nonce)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(t.validation()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if t, err = w.tasks.lock(ctx, op, nonce); err != nil {
		return err
	}
	defer t.lock.unlock()
	return system(op, safefile.RemoveAll(t.validation()))
}

// checkValidated refuses a tree that the attempt has not validated.
func (r *record) checkValidated(op, attempt, tree string) error {
	switch v := r.Validation; {
	case attempt == "", v != nil && v.Attempt == attempt && v.Tree == tree:
		return nil
	case v == nil || v.Attempt != attempt:
		return &Error{
			Kind: Permanent, Op: op, Detail: "the record is missing the tree that " + attempt + " validated",
			Err: ErrNotValidated,
		}
	default:
		return &Error{Kind: Permanent, Op: op, Detail: "the work's tree is " + tree + ", but " + attempt +
			" validated " + v.Tree, Err: ErrNotValidated}
	}
}
