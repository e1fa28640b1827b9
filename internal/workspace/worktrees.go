package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"retake/internal/safefile"
	"retake/internal/worktree"
)

// workTrees creates the work trees of tasks, merges into them and hands them to workers.
type workTrees struct {
	owner    *Owner
	passable bool
	quota    int64
	log      *zap.Logger
}

// create creates the directory of a new checkout, with its own file system if there is a quota.
func (s *workTrees) create(ctx context.Context, t *task) error {
	if err := os.Mkdir(t.checkout(), 0o700); err != nil || s.quota == 0 {
		return err
	}
	f, err := os.OpenFile(t.image(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(s.quota), f.Close()); err != nil {
		return err
	}
	if err := mountTool(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-E", "root_owner=0:0,lazy_itable_init=1",
		t.image()); err != nil {
		return err
	}
	if err := t.mount(ctx); err != nil {
		return err
	}
	return errors.Join(os.Remove(filepath.Join(t.checkout(), "lost+found")), os.Chmod(t.checkout(), 0o700))
}

// ensureMounted mounts a checkout's own file system again after a reboot.
func (s *workTrees) ensureMounted(ctx context.Context, t *task) error {
	if _, err := os.Lstat(t.image()); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return system(t.op, err)
	}
	mounted, err := isMount(t.checkout())
	if err != nil || mounted {
		return system(t.op, err)
	}
	s.log.Info("remounting checkout", zap.String("task", t.nonce))
	return system(t.op, t.mount(ctx))
}

// handOver prepares a work tree for a worker. It ensures that .retake is a real directory, and makes the worker's user
// the owner of all files.
func (s *workTrees) handOver(ctx context.Context, t *task) error {
	if err := makeRetakeDir(t.checkout()); err != nil {
		return err
	}
	if s.passable { // the git directory stays private
		if err := errors.Join(os.Chmod(t.gitDir, 0o700), os.Chmod(t.dir, passable)); err != nil {
			return err
		}
	}
	return s.giveAway(ctx, t.checkout())
}

// giveAway makes the worker's user the owner of a directory and its content. Without root it does nothing, because Open
// has checked that the director runs as that user.
func (s *workTrees) giveAway(ctx context.Context, dir string) error {
	if s.owner == nil || os.Geteuid() != 0 {
		return nil
	}
	return chownTree(ctx, dir, *s.owner)
}

// retakeDir is the directory in a checkout for files of the director and the worker. It is never committed.
const retakeDir = worktree.OwnFolder

func makeRetakeDir(checkout string) error {
	root, err := os.OpenRoot(checkout)
	if err != nil {
		return err
	}
	return errors.Join(ensureRetakeDir(root), root.Close())
}

// ensureRetakeDir makes sure that .retake is a directory. It replaces any other file of that name, such as a link
// created by an agent.
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

// settle loads a task's record, checks that the checkout and the git directory exist, and finishes an interrupted
// merge.
func (s *workTrees) settle(ctx context.Context, t *task) error {
	if err := t.load(); err != nil {
		return err
	}
	if err := s.ensureMounted(ctx, t); err != nil {
		return err
	}
	if _, err := os.Lstat(t.checkout()); errors.Is(err, fs.ErrNotExist) {
		return lost(t.op, fmt.Errorf("%s is gone", t.checkout()))
	}
	if _, err := os.Lstat(t.gitDir); errors.Is(err, fs.ErrNotExist) {
		return &Error{Kind: Permanent, Op: t.op, Detail: t.gitDir + " is gone", Err: ErrDamaged}
	}
	if t.rec.Merge == nil {
		return nil
	}
	s.log.Info("finishing interrupted merge", zap.String("task", t.nonce), zap.String("to", t.rec.Merge.To))
	return s.apply(ctx, t, *t.rec.Merge)
}

// apply writes a merge into the work tree and makes its commit the base. Before starting a new merge, it checks that
// nothing blocks the merge, and records it.
func (s *workTrees) apply(ctx context.Context, t *task, m merge) (err error) {
	u, err := openUpdate(ctx, t, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, system(t.op, u.close())) }()
	if t.rec.Merge == nil {
		if err := u.checkBlocked(); err != nil {
			return err
		}
		t.rec.Merge, t.rec.Changed = &m, true
		if err := t.save(); err != nil {
			return err
		}
	}
	if err := errors.Join(u.apply(), s.handOver(ctx, t)); err != nil {
		return system(t.op, err)
	}
	if err := safefile.SyncDisk(t.checkout()); err != nil {
		return system(t.op, err)
	}
	t.rec.BaseSHA, t.rec.Merge, t.rec.Conflicts = m.To, nil, m.Conflicts
	if m.Tip != "" {
		t.rec.tip(m.Branch, m.Tip)
	}
	if m.Tip != "" || t.rec.Known != "" {
		t.rec.Known = m.Merged
	}
	return t.save()
}
