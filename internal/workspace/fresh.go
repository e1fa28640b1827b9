package workspace

import (
	"context"
	"errors"

	"go.uber.org/zap"
)

// Fresh throws a task's work tree away, so that the next Checkout begins at the base branch as it is then. What
// was pushed stays known: a later delivery is still a child of it. A task without a checkout is fine. No worker
// may be running in the checkout.
func (w *Workspaces) Fresh(ctx context.Context, nonce string) error {
	op := "throw away " + nonce
	if err := checkNonce(op, nonce); err != nil {
		return err
	}
	lock, err := w.lockTask(ctx, nonce)
	if err != nil {
		return err
	}
	defer lock.unlock()
	t := w.task(op, nonce, lock)
	rec, err := t.load()
	if errors.Is(err, ErrNoCheckout) && !rec.Fresh {
		return nil
	}
	if err != nil && !rec.Fresh {
		return err
	}
	// The record first: what is half removed is no checkout any more.
	rec.Fresh, rec.Merge, rec.Conflicts, rec.Known = true, nil, nil, ""
	if err := errors.Join(t.save(rec), t.removeCheckout(), t.clearStage()); err != nil {
		return system(op, err)
	}
	w.log.Info("checkout thrown away", zap.String("task", nonce))
	return nil
}

// remakeCheckout makes the work tree of a task anew that Fresh has thrown away. The task's git directory stays:
// what was pushed is in it.
func (w *Workspaces) remakeCheckout(ctx context.Context, t task, q Request, r remote, rec record) (record, error) {
	sha, err := w.fetchBase(ctx, q.Repo, q.BaseBranch, r)
	if err != nil {
		return record{}, err
	}
	if err := errors.Join(removeStaleLocks(t.gitDir()), t.clearStage(), t.removeCheckout(),
		w.makeCheckout(ctx, t)); err != nil {
		return record{}, system(t.op, err)
	}
	rec.BaseSHA, rec.Fresh, rec.Changed = sha, false, true
	return rec, w.fill(ctx, t, sha)
}

// fill puts the files of a commit into an empty checkout.
func (w *Workspaces) fill(ctx context.Context, t task, sha string) error {
	readTree := t.call("read-tree", "-m", "-u", "--no-recurse-submodules", sha)
	readTree.base = true
	readTree.env = []string{"GIT_WORK_TREE=" + t.checkout(), "GIT_INDEX_FILE=" + t.index()}
	_, err := w.git.run(ctx, readTree)
	return err
}
