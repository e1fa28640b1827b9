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

// baseFiles lists the files of a commit.
func (w *Workspaces) baseFiles(ctx context.Context, t task, base string) ([]string, error) {
	out, err := w.git.run(ctx, t.call("ls-tree", "-r", "-z", "--name-only", base))
	return splitNames(out), err
}

// splitNames reads names that end in NUL.
func splitNames(out string) []string {
	return slices.DeleteFunc(strings.Split(out, "\x00"), func(name string) bool { return name == "" })
}

// leaveOutState returns what tells the state of agents from work: a file that the base has is work.
func (w *Workspaces) leaveOutState(ctx context.Context, t task, base string) (func(name string) bool, error) {
	if len(w.state) == 0 {
		return func(string) bool { return false }, nil
	}
	files, err := w.baseFiles(ctx, t, base)
	if err != nil {
		return nil, err
	}
	tracked := map[string]bool{}
	for _, name := range files {
		tracked[name] = true
	}
	return func(name string) bool {
		if tracked[name] || !w.state.Match(name) {
			return false
		}
		w.log.Debug("left out: an agent's own file", zap.String("task", t.nonce), zap.String("file", name))
		return true
	}, nil
}

// maxTracked bounds Tracked.
const maxTracked = 2000

// Tracked lists the files of the checkout's base that are work although a glob of StatePaths or a .gitignore file of the base
// matches them: what a worker, which has no git, cannot know. All is false if there are more than maxTracked, which are left
// out: the worker may then take work for state. No worker may be in the checkout.
func (w *Workspaces) Tracked(ctx context.Context, nonce string) (names []string, all bool, err error) {
	op := "list " + nonce
	if err := checkNonce(op, nonce); err != nil {
		return nil, false, err
	}
	t, rec, err := w.lockCheckout(ctx, op, nonce)
	if err != nil {
		return nil, false, err
	}
	defer t.lock.unlock()
	files, err := w.baseFiles(ctx, t, rec.BaseSHA)
	if err != nil {
		return nil, false, err
	}
	ignored, err := w.trackedIgnored(ctx, t, rec.BaseSHA, files)
	if err != nil {
		return nil, false, err
	}
	names = append(slices.DeleteFunc(files, func(name string) bool { return !w.state.Match(name) }), ignored...)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > maxTracked {
		w.log.Warn("many tracked files are ignored ones: an agent that changes only those may look idle", zap.String("task", nonce),
			zap.Int("files", len(names)), zap.Int("known to the worker", maxTracked))
		return names[:maxTracked], false, nil
	}
	return names, true, nil
}

// trackedIgnored asks git, in a staging folder that has nothing but the base's .gitignore files.
func (w *Workspaces) trackedIgnored(ctx context.Context, t task, base string, files []string) (names []string, err error) {
	var ignoreFiles strings.Builder
	for _, name := range files {
		if path.Base(name) == ".gitignore" {
			ignoreFiles.WriteString(name + "\x00")
		}
	}
	if ignoreFiles.Len() == 0 {
		return nil, nil
	}
	if err := errors.Join(removeStaleLocks(t.gitDir()), t.clearStage(), os.Mkdir(t.stage(), 0o700)); err != nil {
		return nil, system(t.op, err)
	}
	defer func() { err = errors.Join(err, system(t.op, t.clearStage())) }()
	if _, err := w.staged(ctx, t, "", "read-tree", base); err != nil {
		return nil, err
	}
	if _, err := w.staged(ctx, t, ignoreFiles.String(), "checkout-index", "--quiet", "--force", "-z", "--stdin"); err != nil {
		return nil, err
	}
	out, err := w.staged(ctx, t, "", "ls-files", "-z", "--cached", "--ignored", "--exclude-per-directory=.gitignore")
	return splitNames(out), err
}
