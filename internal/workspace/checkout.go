package workspace

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"retake/internal/safefile"
)

// Request identifies a checkout and its remote.
type Request struct {
	Nonce      string // claim nonce, the checkout's permanent name
	Repo       string // owner/name; the mirror has the same name
	RemoteURL  string // http(s):// or an absolute path, without credentials
	BaseBranch string // already validated with the configuration
	Task       string // issue key
	// Attempt is the number of the attempt that will use the checkout. Zero keeps the recorded number. A director that
	// has lost its journal reads the number from the record.
	Attempt int
}

func (q Request) check(op string) (remote, error) {
	r, err := parseRemote(op, q.RemoteURL)
	return r, errors.Join(checkNonce(op, q.Nonce), checkRepo(op, q.Repo), err)
}

// Checkout is a work tree for a worker.
type Checkout struct {
	Path    string // absolute
	BaseSHA string // commit of the base branch that the work is based on; Sync and Join move it forward
	Reused  bool   // set if an earlier attempt may have left changes in it
}

const (
	// infoExclude is anchored, because a deeper directory with this name belongs to the repository. Snapshots also
	// exclude the directory explicitly, because a .gitignore in the tree outranks info/exclude.
	infoExclude = "/" + retakeDir + "/\n"
	// infoAttributes outranks every .gitattributes and turns off conversions and filters. The encoding is unset
	// with "!" instead of "-", because git rejects the value false for it.
	infoAttributes = "* -text -eol -ident -filter !working-tree-encoding\n"
)

// Checkout creates the task's checkout from the current base branch of the remote. If an earlier attempt of the task
// left a checkout, Checkout returns that checkout. It first fixes the file owners and the .retake directory, and
// finishes an interrupted merge. ErrLost means that the checkout is damaged beyond repair and the next call creates a
// new one.
func (w *Workspaces) Checkout(ctx context.Context, q Request) (Checkout, error) {
	op := "checkout " + q.Nonce
	r, err := q.check(op)
	if err != nil {
		return Checkout{}, err
	}
	c, err := mended(ctx, w.repairs, op, q.Nonce, func() (Checkout, error) { return w.checkoutOnce(ctx, op, q, r) })
	if errors.Is(err, ErrLost) {
		err = errors.Join(err, w.repairs.beginAnew(ctx, op, q))
	}
	return c, err
}

func (w *Workspaces) checkoutOnce(ctx context.Context, op string, q Request, r remote) (Checkout, error) {
	t, err := w.tasks.lock(ctx, op, q.Nonce)
	if err != nil {
		return Checkout{}, err
	}
	defer t.lock.unlock()
	err = w.trees.settle(ctx, t)
	reused := err == nil
	if reused {
		err = w.reuse(ctx, t, q)
	} else if errors.Is(err, ErrNoCheckout) {
		err = w.newCheckout(ctx, t, q, r)
	}
	if err != nil {
		return Checkout{}, err
	}
	if err := w.trees.handOver(ctx, t); err != nil {
		return Checkout{}, system(op, err)
	}
	if !reused { // git syncs its objects to disk, but not the files of a work tree
		if err := safefile.SyncDisk(t.checkout()); err != nil {
			return Checkout{}, system(op, err)
		}
	}
	if noted := q.Attempt == 0 || t.rec.Task == q.Task && t.rec.Attempt == q.Attempt; !reused || !noted {
		t.rec.Task, t.rec.Attempt = q.Task, max(q.Attempt, t.rec.Attempt)
		if err := t.save(); err != nil {
			return Checkout{}, err
		}
	}
	if !reused {
		w.log.Info("created checkout", zap.String("task", q.Nonce), zap.String("repo", q.Repo),
			zap.String("base", t.rec.BaseSHA))
	}
	return Checkout{Path: t.checkout(), BaseSHA: t.rec.BaseSHA, Reused: reused}, nil
}

// reuse prepares an earlier attempt's checkout for another attempt.
func (w *Workspaces) reuse(ctx context.Context, t *task, q Request) error {
	if err := t.rec.belongs(t.op, q); err != nil {
		return err
	}
	if err := w.snapshots.measure(ctx, t); err != nil {
		return err
	}
	if t.rec.Remote == q.RemoteURL {
		return nil
	}
	t.rec.Remote = q.RemoteURL // an earlier version wrote the record without Remote, or the server has moved
	return t.save()
}

// newCheckout creates a work tree. After Fresh, it keeps the task's git directory, which contains the pushed commits.
// Otherwise, it removes the leftovers of an interrupted call.
func (w *Workspaces) newCheckout(ctx context.Context, t *task, q Request, r remote) error {
	remake := t.rec.Fresh
	if remake {
		if err := t.rec.belongs(t.op, q); err != nil {
			return err
		}
	} else if err := errors.Join(t.unmount(), safefile.RemoveAll(t.dir)); err != nil {
		return system(t.op, err)
	}
	sha, err := w.mirrors.head(ctx, q.Repo, q.BaseBranch, r)
	if err != nil {
		return err
	}
	if remake {
		err = errors.Join(t.removeStaleLocks(), t.clearStage(), t.removeCheckout())
		t.rec.BaseSHA, t.rec.Fresh, t.rec.Changed = sha, false, true
	} else {
		err = w.mirrors.lend(ctx, t.objects, q.Repo, formatOf(sha))
		t.rec = record{
			Version: recordVersion, Nonce: t.nonce, Repo: q.Repo, BaseBranch: q.BaseBranch, BaseSHA: sha,
			Remote: q.RemoteURL,
		}
	}
	if err == nil {
		err = w.trees.create(ctx, t)
	}
	if err != nil {
		return system(t.op, err)
	}
	if err := t.fill(ctx, sha); err != nil {
		return err
	}
	if err := w.snapshots.measureBase(ctx, t); err != nil {
		return errors.Join(err, t.removeCheckout()) // without a record, the next call creates the checkout again
	}
	return nil
}

// Fresh discards a task's work tree, so the next Checkout starts from the latest base branch. The record keeps the
// pushed commits, so a later delivery becomes a child of them. A missing checkout is not an error. No worker may be
// running in the checkout.
func (w *Workspaces) Fresh(ctx context.Context, nonce string) error {
	t, err := w.tasks.lock(ctx, "discard "+nonce, nonce)
	if err != nil {
		return err
	}
	defer t.lock.unlock()
	err = t.load()
	if errors.Is(err, ErrNoCheckout) && !t.rec.Fresh {
		return nil
	}
	if err != nil && !t.rec.Fresh {
		return err
	}
	// Save the record first, so that a half-removed work tree does not count as a checkout.
	t.rec.discard()
	if err := errors.Join(t.save(), t.removeCheckout(), t.clearStage()); err != nil {
		return system(t.op, err)
	}
	w.log.Info("discarded checkout", zap.String("task", nonce))
	return nil
}
