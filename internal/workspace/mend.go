package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"retake/internal/safefile"
)

// What git calls damaged is made again: a mirror is fetched anew, a task's git directory is built around the
// same work tree, which git never keeps anything in. Nothing is lost by either but what was only in the git
// directory: what Sync kept of earlier states.

// renewEvery bounds how often tasks that find the objects of a mirror damaged have it fetched anew: one of them
// is enough for all.
const renewEvery = 10 * time.Minute

// mended runs an operation on a task, and once more if what git called damaged could be made again. An
// operation that finds the work lost leaves a task that begins anew.
func mended[T any](ctx context.Context, w *Workspaces, op, nonce string, run func() (T, error)) (T, error) {
	out, err := run()
	if errors.Is(err, ErrDamaged) && ctx.Err() == nil {
		if err = w.mend(ctx, op, nonce, err); err == nil {
			out, err = run()
		}
		if errors.Is(err, ErrDamaged) {
			err = lost(op, err)
		}
	}
	if errors.Is(err, ErrLost) && ctx.Err() == nil {
		err = errors.Join(err, w.beginAnew(ctx, op, Request{Nonce: nonce}))
	}
	return out, err
}

func lost(op string, why error) error {
	return &Error{Kind: Permanent, Op: op, Detail: "the work so far is lost: " + why.Error(), Err: ErrLost}
}

// mend makes a task's repositories again.
func (w *Workspaces) mend(ctx context.Context, op, nonce string, why error) error {
	lock, err := w.lockTask(ctx, nonce)
	if err != nil {
		return err
	}
	defer lock.unlock()
	t := w.task(op, nonce, lock)
	rec, err := t.load()
	switch {
	case rec.Remote == "" && (err == nil || errors.Is(err, ErrNoCheckout)): // no checkout yet, or of an earlier version
		return why
	case err != nil && !rec.Fresh:
		return err
	}
	r, err := parseRemote(op, rec.Remote)
	if err == nil {
		err = w.renewOnce(ctx, op, rec, r, why)
	}
	if err != nil {
		return err
	}
	w.log.Warn("a task's repository is made again", zap.String("task", nonce), zap.String("repo", rec.Repo),
		zap.Error(why))
	return w.renewTask(ctx, t, rec, r, why)
}

// renewOnce fetches the mirror anew unless somebody just did.
func (w *Workspaces) renewOnce(ctx context.Context, op string, rec record, r remote, why error) error {
	lock, err := w.lockMirror(ctx, rec.Repo)
	if err != nil {
		return err
	}
	defer lock.unlock()
	if at, ok := w.renewed.Load(rec.Repo); ok && time.Since(at.(time.Time)) < renewEvery {
		return nil
	}
	_, err = w.renewMirror(ctx, op, rec.Repo, rec.BaseBranch, r, lock, why)
	return err
}

// renewMirror fetches a mirror anew and puts it where the damaged one is, which nobody needs then: all of it is
// on the remote.
func (w *Workspaces) renewMirror(ctx context.Context, op, repo, branch string, r remote, lock *fileLock,
	why error,
) (string, error) {
	w.log.Warn("a damaged mirror is fetched anew", zap.String("repo", repo), zap.Error(why))
	dir := w.mirrorDir(repo)
	fresh := dir + ".new"
	if err := safefile.RemoveAll(fresh); err != nil {
		return "", system(op, err)
	}
	sha, err := w.fetchInto(ctx, op, fresh, branch, r, lock)
	if err == nil {
		err = system(op, replaceDir(fresh, dir))
	}
	if err == nil {
		w.renewed.Store(repo, time.Now())
	}
	return sha, err
}

// replaceDir moves a folder to where another one is. A crash leaves one of them there, or none.
func replaceDir(fresh, dir string) error {
	old := dir + ".old"
	if err := safefile.RemoveAll(old); err != nil {
		return err
	}
	if err := safefile.Rename(dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(safefile.Rename(fresh, dir), safefile.RemoveAll(old))
}

// renewTask builds a task's git directory anew, with what the remote has of the commits that the record names.
func (w *Workspaces) renewTask(ctx context.Context, t task, rec record, r remote, why error) error {
	fresh := t.gitDir() + ".new"
	if err := safefile.RemoveAll(fresh); err != nil {
		return system(t.op, err)
	}
	if err := w.initTask(ctx, t, fresh, rec.Repo); err != nil {
		return err
	}
	for branch, sha := range rec.Tips {
		there, err := w.obtain(ctx, t, fresh, sha, r)
		if err != nil {
			return err
		}
		if !there { // Join merges all of the branch then
			delete(rec.Tips, branch)
		}
	}
	if known, err := w.hasTree(ctx, t, fresh, rec.Known); err != nil {
		return err
	} else if !known {
		rec.Known = ""
	}
	there, err := rec.Fresh, error(nil)
	if !rec.Fresh && rec.Merge == nil { // of a merge what it was to become is gone, and the work tree is neither
		there, err = w.obtain(ctx, t, fresh, rec.BaseSHA, r)
	}
	switch {
	case err != nil:
		return err
	case !there:
		return lost(t.op, why)
	}
	if err := errors.Join(safefile.SyncDisk(fresh), t.save(rec)); err != nil {
		return system(t.op, err)
	}
	return system(t.op, replaceDir(fresh, t.gitDir()))
}

// obtain reports whether a git directory has a commit, after fetching it if need be. Only the server's word
// says that it has none: while that is away, nothing is lost.
func (w *Workspaces) obtain(ctx context.Context, t task, gitDir, sha string, r remote) (bool, error) {
	there, err := w.hasTree(ctx, t, gitDir, sha)
	if there || err != nil {
		return there, err
	}
	err = w.fetchCommit(ctx, t, gitDir, sha, r)
	switch {
	case errors.Is(err, errNoCommit):
		return false, nil
	case err != nil:
		return false, err
	}
	return w.hasTree(ctx, t, gitDir, sha)
}

// hasTree reports whether a git directory has a commit or tree. That git could not look is an error.
func (w *Workspaces) hasTree(ctx context.Context, t task, gitDir, sha string) (bool, error) {
	if sha == "" {
		return false, nil
	}
	_, err := w.ask(ctx, t.op, gitDir, t.lock, "cat-file", "-e", sha+"^{tree}")
	if KindOf(err) == Transient {
		return false, err
	}
	return err == nil, nil
}

// fetchCommit fetches what the base branch does not have any more.
func (w *Workspaces) fetchCommit(ctx context.Context, t task, gitDir, sha string, r remote) error {
	config, secrets, err := w.credentials(ctx, t.op, r)
	if err != nil {
		return err
	}
	_, err = w.git.run(ctx, call{
		op: t.op, dir: gitDir, gitDir: gitDir, config: config, secrets: secrets, lock: t.lock, remote: true,
		args: []string{
			"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
			"--no-recurse-submodules", "--", r.url, sha,
		},
	})
	return err
}

// beginAnew prepares a task whose work is lost for another checkout. What is left of the work tree stays beside
// it for a person to look at, until the task is over.
func (w *Workspaces) beginAnew(ctx context.Context, op string, q Request) error {
	lock, err := w.lockTask(ctx, q.Nonce)
	if err != nil {
		return err
	}
	defer lock.unlock()
	t := w.task(op, q.Nonce, lock)
	rec, err := t.load()
	switch {
	case rec.Fresh:
		return nil
	case errors.Is(err, ErrLost) && q.Repo == "": // Checkout knows what the record would say
		return nil
	case errors.Is(err, ErrLost):
		aside, err := safefile.SetAside(t.file())
		if err != nil {
			return system(op, err)
		}
		w.log.Warn("the record of a checkout is damaged", zap.String("task", q.Nonce), zap.String("path", aside))
		rec = record{
			Version: recordVersion, Nonce: q.Nonce, Repo: q.Repo, BaseBranch: q.BaseBranch,
			Remote: q.RemoteURL, BaseSHA: noSHA,
		}
	case err != nil:
		return err
	}
	rec.Fresh, rec.Merge, rec.Conflicts, rec.Known = true, nil, nil, ""
	if err := t.save(rec); err != nil {
		return system(op, err)
	}
	aside := ""
	if mounted, _ := isMount(t.checkout()); !mounted {
		if aside, err = safefile.SetAside(t.checkout()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return system(op, err)
		}
	}
	w.log.Warn("the work of a task is lost", zap.String("task", q.Nonce), zap.String("path", filepath.Base(aside)))
	if _, err := os.Lstat(t.gitDir()); errors.Is(err, fs.ErrNotExist) {
		return w.initTask(ctx, t, t.gitDir(), rec.Repo)
	}
	return nil
}

// noSHA is no commit's.
const noSHA = "0000000000000000000000000000000000000000"
