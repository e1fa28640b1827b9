package workspace

import (
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"retake/internal/safefile"
	"retake/internal/worktree"
)

// snapshots turns untrusted work trees into tree objects, within limits.
type snapshots struct {
	limits Limits
	state  atomic.Pointer[worktree.Globs] // globs of files that agents write for their own use
	log    *zap.Logger
}

// snapshot is the content of a work tree.
type snapshot struct {
	tree string
	left []LeftOut // files that the tree cannot contain; at most maxLeftOut
	// nested maps the directories of nested repositories to their .git paths. It has at most maxLeftOut entries.
	nested map[string]string
}

// take writes the content of the checkout as a tree object. base determines which ignored files, and which of the
// agents' own files, are tracked. Git sees only this package's staging directory, never the checkout. ErrTooMuch means
// that the checkout exceeds the limits.
func (s *snapshots) take(ctx context.Context, t *task, base string) (shot snapshot, err error) {
	if err := errors.Join(t.removeStaleLocks(), t.clearStage()); err != nil {
		return shot, system(t.op, err)
	}
	if err := s.measure(ctx, t); err != nil {
		return shot, err
	}
	defer func() {
		if cleanErr := t.clearStage(); cleanErr != nil {
			err = errors.Join(err, system(t.op, cleanErr))
		}
	}()
	leaveOut, err := s.leaveOut(ctx, t, base)
	if err != nil {
		return shot, err
	}
	shot.left, shot.nested, err = stageTree(ctx, t.op, t.checkout(), t.stage(), s.copyLimit(t), leaveOut)
	if err != nil {
		return shot, system(t.op, err)
	}
	if _, err := t.git.run(ctx, t.staged("", "read-tree", base)); err != nil {
		return shot, err
	}
	folders, err := s.measureWork(ctx, t)
	if err != nil {
		return shot, err
	}
	// This exclusion keeps a .retake directory of the base unchanged in the index.
	if _, err := t.git.run(ctx, t.staged("", "add", "--all", "--", ".", ":(exclude,top)"+retakeDir)); err != nil {
		return shot, err
	}
	if shot.tree, err = t.trimmed(ctx, t.staged("", "write-tree")); err != nil || !folders {
		return shot, err
	}
	inside, err := t.inSubmodules(ctx)
	shot.left = append(shot.left, inside...)
	return shot, err
}

// current returns the work tree as a tree object, and its remaining conflicts.
func (s *snapshots) current(ctx context.Context, t *task) (tree string, left []leftover, err error) {
	shot, err := s.take(ctx, t, t.rec.known())
	if err != nil {
		return "", nil, err
	}
	left, err = t.unresolved(ctx, t.rec.Conflicts, shot.tree)
	return shot.tree, left, err
}

// leaveOut returns a function that reports whether a file is an agent's own file rather than work. Files in the base
// always count as work.
func (s *snapshots) leaveOut(ctx context.Context, t *task, base string) (func(name string) bool, error) {
	state := s.statePaths(t)
	if len(state) == 0 {
		return func(string) bool { return false }, nil
	}
	files, err := t.files(ctx, base, state.Match)
	if err != nil {
		return nil, err
	}
	tracked := map[string]bool{}
	for _, name := range files {
		tracked[name] = true
	}
	return func(name string) bool {
		if !state.Match(name) || tracked[name] {
			return false
		}
		s.log.Debug("excluded an agent's own file", zap.String("task", t.nonce), zap.String("file", name))
		return true
	}, nil
}

// copyLimit is the maximum number of bytes to copy from one checkout, not counting holes.
type copyLimit struct {
	bytes int64
	key   string // configuration key of the limit
}

// copyLimit returns the size of the checkout's own file system or checkout.max_bytes, whichever is smaller. Files on a
// separate file system must be copied, because hard links cannot cross file systems.
func (s *snapshots) copyLimit(t *task) copyLimit {
	if info, err := os.Lstat(t.image()); err == nil && info.Size() < s.limits.Bytes {
		return copyLimit{info.Size(), "checkout.quota"}
	}
	return copyLimit{s.limits.Bytes, "checkout.max_bytes"}
}

// measure walks a checkout and stops at the first exceeded limit. It reads only names and sizes.
func (s *snapshots) measure(ctx context.Context, t *task) error {
	return system(t.op, safefile.Walk(ctx, t.checkout(), &size{limits: s.limits, op: t.op}))
}

// measureBase measures a new checkout. The checkout contains only the base, so an exceeded limit is not an agent's
// fault and causes ErrLimitTooLow.
func (s *snapshots) measureBase(ctx context.Context, t *task) error {
	counted := size{limits: s.limits, op: t.op}
	err := system(t.op, safefile.Walk(ctx, t.checkout(), &counted))
	if e, ok := errors.AsType[*Error](err); ok && errors.Is(err, ErrTooMuch) {
		return tooLow(t.op, "the base branch alone exceeds a limit: %s", e.Detail)
	}
	if err == nil && counted.apparent > s.limits.WorkBytes {
		return tooLow(t.op, "the base branch alone exceeds a limit: its files total %d bytes, more than %d "+
			"(checkout.max_work_bytes)", counted.apparent, s.limits.WorkBytes)
	}
	return err
}

// measureWork counts the bytes of the staging directory that git will store, and fails if they exceed the limit. The
// index must hold the base. folders reports whether a path in the index is a directory on disk, such as a submodule.
func (s *snapshots) measureWork(ctx context.Context, t *task) (folders bool, err error) {
	stage, err := unix.Open(t.stage(), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, system(t.op, err)
	}
	defer func() { _ = unix.Close(stage) }()
	var bytes int64
	c := t.staged("", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	c.unbounded = true
	err = t.git.records(ctx, c, 0, func(name []byte) error {
		var st unix.Stat_t
		if err := unix.Fstatat(stage, string(name), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return nil //nolint:nilerr // deleted
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR { // a submodule, or a directory that replaced a file
			folders = true
			return nil
		}
		if bytes += st.Size; bytes > s.limits.WorkBytes {
			return tooMuch(t.op, "the work is larger than %d bytes (checkout.max_work_bytes), including %s: should "+
				".gitignore exclude some of it?",
				s.limits.WorkBytes, shortened(name))
		}
		return nil
	})
	return folders, err
}

// maxTracked is the maximum number of files that Tracked returns.
const maxTracked = 2000

// Tracked lists files of the checkout's base that count as work even though they match a glob of StatePaths or a
// .gitignore of the base. A worker has no git, so it cannot determine these files. all is false if the list was cut at
// maxTracked. The worker may then mistake work for state. No worker may be running in the checkout.
func (w *Workspaces) Tracked(ctx context.Context, nonce string) (names []string, all bool, err error) {
	names, err = onCheckout(ctx, w, "list "+nonce, nonce, func(t *task) ([]string, error) {
		return w.snapshots.tracked(ctx, t)
	})
	if err != nil {
		return nil, false, err
	}
	if len(names) > maxTracked {
		w.log.Warn("many tracked files are ignored, so an agent that changes only those may seem idle",
			zap.String("task", nonce),
			zap.Int("files at least", len(names)), zap.Int("known to the worker", maxTracked))
		return names[:maxTracked], false, nil
	}
	return names, true, nil
}

func (s *snapshots) tracked(ctx context.Context, t *task) (names []string, err error) {
	state := s.statePaths(t)
	ignores := func(name string) bool { return path.Base(name) == ".gitignore" }
	files, err := t.files(ctx, t.rec.BaseSHA, func(name string) bool { return ignores(name) || state.Match(name) })
	if err != nil {
		return nil, err
	}
	var ignoreFiles []string
	for _, name := range files {
		if ignores(name) {
			ignoreFiles = append(ignoreFiles, name)
		}
		if state.Match(name) {
			names = append(names, name)
		}
	}
	ignored, err := t.trackedIgnored(ctx, t.rec.BaseSHA, ignoreFiles)
	if err != nil {
		return nil, err
	}
	names = append(names, ignored...)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// trackedIgnored lists the tracked files matched by the base's .gitignore files. It returns at most maxTracked+1 names.
func (t *task) trackedIgnored(ctx context.Context, base string, ignoreFiles []string) (names []string, err error) {
	if len(ignoreFiles) == 0 {
		return nil, nil
	}
	defer func() { err = errors.Join(err, system(t.op, t.clearStage())) }()
	if err := t.stageFiles(ctx, base, ignoreFiles); err != nil {
		return nil, err
	}
	err = t.git.records(ctx, t.staged("", "ls-files", "-z", "--cached", "--ignored",
		"--exclude-per-directory=.gitignore"), 0, func(name []byte) error {
		if len(names) > maxTracked {
			return errEnough
		}
		names = append(names, string(name))
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return names, err
}
