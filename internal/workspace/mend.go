package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"retake/internal/safefile"
)

// repairs recreates repositories that git reports as damaged. It refetches mirrors and rebuilds a task's git directory
// around the same work tree. Only the earlier states that Sync kept in the git directory are lost, because no other
// repository has them.
type repairs struct {
	tasks   *tasks
	mirrors *mirrors
	log     *zap.Logger
}

// mended runs an operation on a task. If git reports damage and the repair succeeds, it runs the operation once
// more. If the work is lost, it prepares the task for a new checkout.
func mended[T any](ctx context.Context, s *repairs, op, nonce string, run func() (T, error)) (T, error) {
	out, err := run()
	if errors.Is(err, ErrDamaged) && ctx.Err() == nil {
		if err = s.mend(ctx, op, nonce, err); err == nil {
			out, err = run()
		}
		if errors.Is(err, ErrDamaged) {
			err = lost(op, err)
		}
	}
	if errors.Is(err, ErrLost) && ctx.Err() == nil {
		err = errors.Join(err, s.beginAnew(ctx, op, Request{Nonce: nonce}))
	}
	return out, err
}

func lost(op string, why error) error {
	return &Error{Kind: Permanent, Op: op, Detail: "the work so far is lost: " + why.Error(), Err: ErrLost}
}

// mend recreates a task's repositories. why is the error that reported the damage. If the record does not name the
// remote, a repair is impossible, and mend returns why.
func (s *repairs) mend(ctx context.Context, op, nonce string, why error) error {
	t, err := s.tasks.lock(ctx, op, nonce)
	if err != nil {
		return err
	}
	defer t.lock.unlock()
	err = t.load()
	switch {
	// The task has no checkout, or an earlier version wrote its record.
	case t.rec.Remote == "" && (err == nil || errors.Is(err, ErrNoCheckout)):
		return why
	case err != nil && !t.rec.Fresh:
		return err
	}
	r, err := parseRemote(op, t.rec.Remote)
	if err == nil {
		err = s.mirrors.renewOnce(ctx, op, &t.rec, r, why)
	}
	if err != nil {
		return err
	}
	s.log.Warn("rebuilding a task's damaged repository", zap.String("task", nonce), zap.String("repo", t.rec.Repo),
		zap.Error(why))
	return s.rebuild(ctx, t, r, why)
}

// rebuild replaces a task's git directory with a new one. It fetches the record's commits that the remote still has.
func (s *repairs) rebuild(ctx context.Context, t *task, r remote, why error) error {
	fresh := t.objects
	fresh.gitDir = t.gitDir + ".new"
	if err := safefile.RemoveAll(fresh.gitDir); err != nil {
		return system(t.op, err)
	}
	if err := s.mirrors.lend(ctx, fresh, t.rec.Repo, formatOf(t.rec.BaseSHA)); err != nil {
		return err
	}
	for branch, sha := range t.rec.Tips {
		there, err := s.mirrors.remotes.obtain(ctx, fresh, sha, r)
		if err != nil {
			return err
		}
		if !there { // without the commit, Join merges the whole branch
			delete(t.rec.Tips, branch)
		}
	}
	if known, err := fresh.hasTree(ctx, t.rec.Known); err != nil {
		return err
	} else if !known {
		t.rec.Known = ""
	}
	there, err := t.rec.Fresh, error(nil)
	// If a merge is unfinished, the work cannot be saved: its target tree is lost, and the work tree is half merged.
	if !t.rec.Fresh && t.rec.Merge == nil {
		there, err = s.mirrors.remotes.obtain(ctx, fresh, t.rec.BaseSHA, r)
	}
	switch {
	case err != nil:
		return err
	case !there:
		return lost(t.op, why)
	}
	if err := errors.Join(safefile.SyncDisk(fresh.gitDir), t.save()); err != nil {
		return system(t.op, err)
	}
	return system(t.op, replaceDir(fresh.gitDir, t.gitDir))
}

// beginAnew prepares a task for a new checkout after its work was lost. It sets the old work tree aside, so that a
// person can inspect it until the task is over.
func (s *repairs) beginAnew(ctx context.Context, op string, q Request) error {
	t, err := s.tasks.lock(ctx, op, q.Nonce)
	if err != nil {
		return err
	}
	defer t.lock.unlock()
	err = t.load()
	switch {
	case t.rec.Fresh:
		return nil
	case errors.Is(err, ErrLost) && q.Repo == "": // only Checkout can restore the record
		return nil
	case errors.Is(err, ErrLost):
		aside, err := safefile.SetAside(t.file())
		if err != nil {
			return system(op, err)
		}
		s.log.Warn("set aside a checkout's damaged record", zap.String("task", q.Nonce), zap.String("path", aside))
		t.rec = record{
			Version: recordVersion, Nonce: q.Nonce, Repo: q.Repo, BaseBranch: q.BaseBranch,
			Remote: q.RemoteURL, BaseSHA: noSHA,
		}
	case err != nil:
		return err
	}
	t.rec.discard()
	if err := t.save(); err != nil {
		return err
	}
	aside := ""
	if mounted, _ := isMount(t.checkout()); !mounted {
		if aside, err = safefile.SetAside(t.checkout()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return system(op, err)
		}
	}
	s.log.Warn("a task's work was lost", zap.String("task", q.Nonce), zap.String("path", filepath.Base(aside)))
	if _, err := os.Lstat(t.gitDir); errors.Is(err, fs.ErrNotExist) {
		return s.mirrors.lend(ctx, t.objects, t.rec.Repo, formatOf(t.rec.BaseSHA))
	}
	return nil
}

// noSHA stands for an unknown base commit.
const noSHA = "0000000000000000000000000000000000000000"
