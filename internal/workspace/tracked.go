package workspace

import (
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"go.uber.org/zap"
)

// baseFiles lists those files of a commit that are wanted.
func (w *Workspaces) baseFiles(ctx context.Context, t task, base string,
	wanted func(name string) bool,
) (names []string, err error) {
	c := t.call("ls-tree", "-r", "-z", "--name-only", base)
	c.unbounded, c.base = true, true
	size := 0
	err = w.git.records(ctx, c, 0, func(record []byte) error {
		name := string(record)
		if !wanted(name) {
			return nil
		}
		if size += len(name); size > maxAnswer {
			return tooMuchSaid(c)
		}
		names = append(names, name)
		return nil
	})
	return names, err
}

// leaveOutState returns what tells the state of agents from work: a file that the base has is work.
func (w *Workspaces) leaveOutState(ctx context.Context, t task, base string) (func(name string) bool, error) {
	state := *w.state.Load()
	if len(state) == 0 {
		return func(string) bool { return false }, nil
	}
	files, err := w.baseFiles(ctx, t, base, state.Match)
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
		w.log.Debug("left out: an agent's own file", zap.String("task", t.nonce), zap.String("file", name))
		return true
	}, nil
}

// maxTracked bounds Tracked.
const maxTracked = 2000

// Tracked lists the files of the checkout's base that are work although a glob of StatePaths or a .gitignore
// file of the base matches them: what a worker, which has no git, cannot know. All is false if there are more
// than maxTracked, which are left out: the worker may then take work for state. No worker may be in the
// checkout.
func (w *Workspaces) Tracked(ctx context.Context, nonce string) (names []string, all bool, err error) {
	op := "list " + nonce
	if err := checkNonce(op, nonce); err != nil {
		return nil, false, err
	}
	names, err = mended(ctx, w, op, nonce, func() ([]string, error) { return w.trackedOnce(ctx, op, nonce) })
	if err != nil {
		return nil, false, err
	}
	if len(names) > maxTracked {
		w.log.Warn("many tracked files are ignored ones: an agent that changes only those may look idle",
			zap.String("task", nonce),
			zap.Int("files at least", len(names)), zap.Int("known to the worker", maxTracked))
		return names[:maxTracked], false, nil
	}
	return names, true, nil
}

func (w *Workspaces) trackedOnce(ctx context.Context, op, nonce string) (names []string, err error) {
	t, rec, err := w.lockCheckout(ctx, op, nonce)
	if err != nil {
		return nil, err
	}
	defer t.lock.unlock()
	state := *w.state.Load()
	ignores := func(name string) bool { return path.Base(name) == ".gitignore" }
	files, err := w.baseFiles(ctx, t, rec.BaseSHA, func(name string) bool { return ignores(name) || state.Match(name) })
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
	ignored, err := w.trackedIgnored(ctx, t, rec.BaseSHA, ignoreFiles)
	if err != nil {
		return nil, err
	}
	names = append(names, ignored...)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// trackedIgnored asks git, in a staging folder that has nothing but the base's .gitignore files. It returns at
// most maxTracked+1 names.
func (w *Workspaces) trackedIgnored(ctx context.Context, t task, base string,
	ignoreFiles []string,
) (names []string, err error) {
	if len(ignoreFiles) == 0 {
		return nil, nil
	}
	if err := errors.Join(removeStaleLocks(t.gitDir()), t.clearStage(), os.Mkdir(t.stage(), 0o700)); err != nil {
		return nil, system(t.op, err)
	}
	defer func() { err = errors.Join(err, system(t.op, t.clearStage())) }()
	if _, err := w.staged(ctx, t, "", "read-tree", base); err != nil {
		return nil, err
	}
	if _, err := w.staged(ctx, t, strings.Join(ignoreFiles, "\x00")+"\x00", "checkout-index", "--quiet", "--force",
		"-z", "--stdin"); err != nil {
		return nil, err
	}
	err = w.git.records(ctx, t.stagedCall("", "ls-files", "-z", "--cached", "--ignored",
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
