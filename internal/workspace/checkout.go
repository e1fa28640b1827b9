package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"retake/internal/safefile"
	"retake/internal/worktree"
)

// Request says which checkout is wanted.
type Request struct {
	Nonce      string // claim nonce: the checkout's name for ever
	Repo       string // owner/name: the mirror's name
	RemoteURL  string // http(s):// or an absolute path; no credentials in it
	BaseBranch string // checked with the configuration
	Task       string // issue key, and
	// for which attempt it is made ready: noted, for a director that has lost its journal; 0: for none
	Attempt int
}

func (q Request) check(op string) (remote, error) {
	r, err := parseRemote(op, q.RemoteURL)
	return r, errors.Join(checkNonce(op, q.Nonce), checkRepo(op, q.Repo), err)
}

// belongs tells whether the request is about the checkout that the record describes.
func (q Request) belongs(op string, rec record) error {
	if rec.Repo != q.Repo || rec.BaseBranch != q.BaseBranch {
		return refuse(op, "", "nonce belongs to %s at %s, not to %s at %s", rec.Repo, rec.BaseBranch, q.Repo,
			q.BaseBranch)
	}
	return nil
}

// Checkout is a work tree that a worker may have.
type Checkout struct {
	Path    string // absolute
	BaseSHA string // the commit that its work is on top of: where it began, or what Sync merged last
	Reused  bool   // an earlier attempt may have left its traces in it
}

// retakeDir is where director and worker put files of their own into a checkout; never committed.
const retakeDir = worktree.OwnFolder

const (
	// Anchored: a folder of this name further down is the repository's business. An ignore file of the tree
	// outranks this one, so Deliver leaves the folder out by itself too; this is for the agent's own look at
	// things.
	infoExclude = "/" + retakeDir + "/\n"
	// Outranks every .gitattributes: no conversion, no filter. "!" and not "-": git dies of a false encoding.
	infoAttributes = "* -text -eol -ident -filter !working-tree-encoding\n"
)

// Checkout makes the task's checkout from the remote's base branch as it is now, or returns the one that an
// earlier attempt of the same task left, unchanged but for the owner of its files, an existing .retake folder,
// and a merge that was interrupted, which it finishes. ErrLost: that one is damaged and cannot be made again;
// the next call begins anew.
func (w *Workspaces) Checkout(ctx context.Context, q Request) (Checkout, error) {
	op := "checkout " + q.Nonce
	r, err := q.check(op)
	if err != nil {
		return Checkout{}, err
	}
	c, err := mended(ctx, w, op, q.Nonce, func() (Checkout, error) { return w.checkoutOnce(ctx, op, q, r) })
	if errors.Is(err, ErrLost) {
		err = errors.Join(err, w.beginAnew(ctx, op, q))
	}
	return c, err
}

func (w *Workspaces) checkoutOnce(ctx context.Context, op string, q Request, r remote) (Checkout, error) {
	lock, err := w.lockTask(ctx, q.Nonce)
	if err != nil {
		return Checkout{}, err
	}
	defer lock.unlock()
	t := w.task(op, q.Nonce, lock)
	rec, err := w.settled(ctx, t)
	reused := err == nil
	switch {
	case reused:
		if err = q.belongs(op, rec); err == nil {
			err = w.measure(ctx, t)
		}
		if err == nil && rec.Remote != q.RemoteURL { // of an earlier version, or the server moved
			rec.Remote = q.RemoteURL
			err = system(op, t.save(rec))
		}
	case !errors.Is(err, ErrNoCheckout):
	case rec.Fresh:
		if err = q.belongs(op, rec); err == nil {
			rec, err = w.remakeCheckout(ctx, t, q, r, rec)
		}
	default:
		rec, err = w.newCheckout(ctx, t, q, r)
	}
	if err == nil && !reused {
		if err = w.measureBase(ctx, t); err != nil {
			err = errors.Join(err, t.removeCheckout()) // there is no record of it, so it is made again
		}
	}
	if err != nil {
		return Checkout{}, err
	}
	if err := w.prepareForWorker(ctx, t); err != nil {
		return Checkout{}, system(op, err)
	}
	if !reused { // git syncs its objects, not the files
		if err := safefile.SyncDisk(t.checkout()); err != nil {
			return Checkout{}, system(op, err)
		}
	}
	if noted := q.Attempt == 0 || rec.Task == q.Task && rec.Attempt == q.Attempt; !reused || !noted {
		rec.Task, rec.Attempt = q.Task, max(q.Attempt, rec.Attempt)
		if err := t.save(rec); err != nil {
			return Checkout{}, system(op, err)
		}
	}
	if !reused {
		w.log.Info("checkout made", zap.String("task", q.Nonce), zap.String("repo", q.Repo),
			zap.String("base", rec.BaseSHA))
	}
	return Checkout{Path: t.checkout(), BaseSHA: rec.BaseSHA, Reused: reused}, nil
}

// newCheckout builds the folder from nothing; what a crash left of an earlier try is removed first.
func (w *Workspaces) newCheckout(ctx context.Context, t task, q Request, r remote) (record, error) {
	if err := errors.Join(t.unmount(), safefile.RemoveAll(t.dir)); err != nil {
		return record{}, system(t.op, err)
	}
	sha, err := w.fetchBase(ctx, q.Repo, q.BaseBranch, r)
	if err != nil {
		return record{}, err
	}
	if err := w.initTask(ctx, t, t.gitDir(), q.Repo); err != nil {
		return record{}, err
	}
	if err := w.makeCheckout(ctx, t); err != nil {
		return record{}, system(t.op, err)
	}
	if err := w.fill(ctx, t, sha); err != nil {
		return record{}, err
	}
	return record{
		Version: recordVersion, Nonce: t.nonce, Repo: q.Repo, BaseBranch: q.BaseBranch, BaseSHA: sha,
		Remote: q.RemoteURL,
	}, nil
}

// initTask makes a task's git directory, which borrows the mirror's objects.
func (w *Workspaces) initTask(ctx context.Context, t task, dir, repo string) error {
	if err := w.initGitDir(ctx, t.op, dir, t.lock); err != nil {
		return err
	}
	// Relative to the objects folder, so that the data directory can be moved.
	alternates, err := filepath.Rel(filepath.Join(dir, "objects"), filepath.Join(w.mirrorDir(repo), "objects"))
	for _, f := range []struct{ name, text string }{
		{"objects/info/alternates", filepath.ToSlash(alternates) + "\n"},
		{"info/exclude", infoExclude},
		{"info/attributes", infoAttributes},
	} {
		if err == nil {
			err = writeFile(filepath.Join(dir, filepath.FromSlash(f.name)), f.text)
		}
	}
	return system(t.op, err)
}

func writeFile(path, text string) error {
	if err := safefile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return safefile.Write(path, 0o600, []byte(text))
}

// prepareForWorker makes the tree ready: .retake is a real folder, everything belongs to the worker's user.
func (w *Workspaces) prepareForWorker(ctx context.Context, t task) error {
	root, err := os.OpenRoot(t.checkout())
	if err != nil {
		return err
	}
	err = ensureRetakeDir(root)
	if err = errors.Join(err, root.Close()); err != nil {
		return err
	}
	if w.passable { // but git's own folder is nobody's business
		if err := errors.Join(os.Chmod(t.gitDir(), 0o700), os.Chmod(t.dir, passable)); err != nil {
			return err
		}
	}
	if w.owner == nil || os.Geteuid() != 0 {
		return nil // then it belongs to the right one already: Open saw to it
	}
	return chownTree(ctx, t.checkout(), *w.owner)
}

// ensureRetakeDir replaces whatever else has that name: an agent may have put a link to somewhere there.
func ensureRetakeDir(checkout *os.Root) error {
	info, err := checkout.Lstat(retakeDir)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		if err := checkout.Remove(retakeDir); err != nil {
			return err
		}
	}
	return checkout.Mkdir(retakeDir, 0o755)
}
