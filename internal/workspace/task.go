package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"retake/internal/safefile"
)

// task is one claim's directory, with its git directory, work tree and record, during one operation.
type task struct {
	objects
	nonce string
	dir   string
	rec   record // set by load
}

func (t *task) checkout() string   { return filepath.Join(t.dir, "checkout") }
func (t *task) image() string      { return filepath.Join(t.dir, "checkout.img") }
func (t *task) stage() string      { return filepath.Join(t.dir, "stage") }
func (t *task) index() string      { return filepath.Join(t.dir, "index") }
func (t *task) validation() string { return filepath.Join(t.dir, "validation") }
func (t *task) file() string       { return filepath.Join(t.dir, "task.json") }

// load reads the record. It returns ErrNoCheckout if the record is missing. If the checkout was discarded, it
// loads the record but still returns ErrNoCheckout.
func (t *task) load() error {
	data, err := os.ReadFile(t.file())
	if errors.Is(err, fs.ErrNotExist) {
		return noCheckout(t.op, t.nonce)
	}
	if err != nil {
		return system(t.op, err)
	}
	rec, err := parseRecord(data, t.nonce)
	if err != nil {
		return lost(t.op, fmt.Errorf("%s is damaged: %w", t.file(), err))
	}
	if t.rec = rec; rec.Fresh {
		return noCheckout(t.op, t.nonce)
	}
	return nil
}

// save replaces the record as a whole. After a crash, the file has either the old or the new content.
func (t *task) save() error {
	data, err := json.MarshalIndent(t.rec, "", "  ")
	if err != nil {
		return err
	}
	return system(t.op, safefile.Write(t.file(), 0o600, append(data, '\n')))
}

// inTree returns a call that uses the given work tree and index.
func (t *task) inTree(dir, index string, args ...string) call {
	c := t.call(args...)
	c.env = []string{"GIT_WORK_TREE=" + dir, "GIT_INDEX_FILE=" + index}
	return c
}

// staged returns a call that uses the staging directory as its work tree.
func (t *task) staged(stdin string, args ...string) call {
	c := t.inTree(t.stage(), t.index(), args...)
	c.dir, c.stdin = t.stage(), strings.NewReader(stdin)
	return c
}

// clearStage removes the staging directory, its index, and a stale lock of that index.
func (t *task) clearStage() error {
	return errors.Join(safefile.RemoveAll(t.stage()), safefile.RemoveAll(t.index()),
		safefile.RemoveAll(t.index()+".lock"))
}

// stageFiles creates a staging directory that holds only the given files of a tree. It fails for paths that git never
// writes to a work tree. The caller clears the stage.
func (t *task) stageFiles(ctx context.Context, tree string, names []string) error {
	if err := errors.Join(t.removeStaleLocks(), t.clearStage(), os.Mkdir(t.stage(), 0o700)); err != nil {
		return system(t.op, err)
	}
	if _, err := t.git.run(ctx, t.staged("", "read-tree", tree)); err != nil {
		return err
	}
	var list strings.Builder
	for _, name := range names {
		list.WriteString(name + "\x00")
	}
	_, err := t.git.run(ctx, t.staged(list.String(), "checkout-index", "--quiet", "--force", "-z", "--stdin"))
	return err
}

// fill writes the files of a commit into an empty checkout.
func (t *task) fill(ctx context.Context, sha string) error {
	c := t.inTree(t.checkout(), t.index(), "read-tree", "-m", "-u", "--no-recurse-submodules", sha)
	c.base = true
	_, err := t.git.run(ctx, c)
	return err
}

// removeCheckout removes the work tree and its file system.
func (t *task) removeCheckout() error {
	return errors.Join(t.unmount(), safefile.RemoveAll(t.checkout()), safefile.RemoveAll(t.image()))
}

// tasks is the directory <dir>/tasks, with one lock per task.
type tasks struct {
	dir   string // the data directory
	git   *program
	trees *workTrees
}

// at returns a task without locking it.
func (s *tasks) at(op, nonce string) *task {
	dir := filepath.Join(s.dir, "tasks", nonce)
	return &task{objects: objects{git: s.git, op: op, gitDir: filepath.Join(dir, "git")}, nonce: nonce, dir: dir}
}

// find is like at, but returns an error if the nonce is malformed.
func (s *tasks) find(op, nonce string) (*task, error) { return s.at(op, nonce), checkNonce(op, nonce) }

// lock waits for a task's lock. The caller releases it.
func (s *tasks) lock(ctx context.Context, op, nonce string) (*task, error) {
	t, err := s.find(op, nonce)
	if err != nil {
		return nil, err
	}
	t.lock, err = lockFile(ctx, filepath.Join(s.dir, "locks", "task-"+nonce))
	return t, err
}

// open locks a task, loads its record and finishes an interrupted merge. The caller releases the lock.
func (s *tasks) open(ctx context.Context, op, nonce string) (*task, error) {
	t, err := s.lock(ctx, op, nonce)
	if err != nil {
		return nil, err
	}
	if err = s.trees.settle(ctx, t); err != nil {
		t.lock.unlock()
	}
	return t, err
}

// nonces lists the tasks that have a directory or a lock file, sorted. It ignores other names.
func (s *tasks) nonces() ([]string, error) {
	var all []string
	for _, from := range []struct{ dir, prefix string }{{"tasks", ""}, {"locks", "task-"}} {
		entries, err := os.ReadDir(filepath.Join(s.dir, from.dir))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if nonce, ok := strings.CutPrefix(e.Name(), from.prefix); ok && nonceForm.MatchString(nonce) {
				all = append(all, nonce)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// onCheckout runs an operation on the open checkout of a task. If a repository is damaged, onCheckout repairs it and
// repeats the operation once.
func onCheckout[T any](ctx context.Context, w *Workspaces, op, nonce string, do func(t *task) (T, error)) (T, error) {
	return mended(ctx, w.repairs, op, nonce, func() (none T, err error) {
		t, err := w.tasks.open(ctx, op, nonce)
		if err != nil {
			return none, err
		}
		defer t.lock.unlock()
		return do(t)
	})
}
