package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/safefile"
)

// SyncOptions say what happens to conflicts.
type SyncOptions struct {
	// KeepConflicts leaves git's conflict markers in the files, for the next attempt to resolve: the base moves
	// all the same. Deliver refuses the work while they are there. Otherwise a conflict is an error, and
	// nothing is touched.
	KeepConflicts bool
}

// Synced is what Sync or Join did.
type Synced struct {
	// base before and now; of Join: the commit of the branch that the work held, and the one that it holds
	From, To string
	Merged   bool // false: there was nothing newer, or conflict markers of an earlier merge are still there
	// Conflicts names the files that wait for a decision, of earlier merges, too.
	Conflicts []string
	// Left says, for each of Conflicts, what git left there: "a.txt: has conflict markers".
	Left []string
}

// waiting tells what waits for a decision.
func (s Synced) waiting(files []leftover) Synced {
	for _, l := range files {
		s.Conflicts = append(s.Conflicts, l.name())
		s.Left = append(s.Left, printable(l.name())+": "+l.Note)
	}
	return s
}

// merge is a merge that was computed: the work tree holds Ours, or partly Merged already, and shall hold Merged.
type merge struct {
	Ours      string     `json:"ours"`   // tree
	Merged    string     `json:"merged"` // tree
	To        string     `json:"to"`     // commit: the new base
	Branch    string     `json:"branch,omitempty"`
	Tip       string     `json:"tip,omitempty"` // commit of Branch that the work tree holds then
	Conflicts []leftover `json:"conflicts,omitempty"`
}

// Sync merges the base branch, as it is on the remote now, into the task's work tree. What an agent left there,
// committed or not, stays as its changes on top of the new base; the next Deliver makes one commit of them
// there. What it looked like before is kept in the task's git directory under refs/retake/before/<new base>.
// Ignored files stay, unless the base branch now has a file of that name.
//
// ErrMergeConflict, of Kind Conflict with the names in its text: nothing was touched. With KeepConflicts that
// is only so where ignored files are in the way. Into a work tree that has conflict markers of an earlier merge
// nothing is merged. ErrCannotMerge: git is older than 2.38. No worker may be running in the checkout. After a
// crash, the next operation on the checkout finishes what was begun.
func (w *Workspaces) Sync(ctx context.Context, q Request, o SyncOptions) (Synced, error) {
	return mended(ctx, w, "sync "+q.Nonce, q.Nonce, func() (Synced, error) { return w.syncOnce(ctx, q, o) })
}

func (w *Workspaces) syncOnce(ctx context.Context, q Request, o SyncOptions) (Synced, error) {
	t, rec, to, err := w.fetched(ctx, "sync "+q.Nonce, q)
	if err != nil {
		return Synced{}, err
	}
	defer t.lock.unlock()
	from := rec.BaseSHA
	if to == from && (len(rec.Conflicts) == 0 || !o.KeepConflicts) {
		return Synced{From: from, To: from}, nil
	}
	m, left, err := w.mergeBase(ctx, t, rec, to)
	switch names := marked(left); {
	case err != nil:
		return Synced{}, err
	case len(names) > 0 && !o.KeepConflicts:
		return Synced{}, markersLeft(t.op, names)
	case m.To == "":
		return Synced{From: from, To: from}.waiting(left), nil
	case len(m.Conflicts) > len(left) && !o.KeepConflicts:
		return Synced{}, m.refused(t.op, left)
	}
	if err := w.applyMerge(ctx, t, &rec, m); err != nil {
		return Synced{}, err
	}
	w.log.Info("checkout merged with its base branch", zap.String("task", q.Nonce), zap.String("repo", q.Repo),
		zap.String("from", from),
		zap.String("to", to), zap.Int("conflicts", len(m.Conflicts)))
	return Synced{From: from, To: to, Merged: true}.waiting(m.Conflicts), nil
}

// Mergeable reports whether the task's work would merge cleanly with the base branch as it is on the remote
// now; nothing is touched. ErrMergeConflict, with the names in its text: it would not. No worker may be running
// in the checkout.
func (w *Workspaces) Mergeable(ctx context.Context, q Request) error {
	_, err := mended(ctx, w, "try to merge "+q.Nonce, q.Nonce, func() (struct{}, error) {
		return struct{}{},
			w.mergeableOnce(ctx, q)
	})
	return err
}

func (w *Workspaces) mergeableOnce(ctx context.Context, q Request) error {
	t, rec, to, err := w.fetched(ctx, "try to merge "+q.Nonce, q)
	if err != nil {
		return err
	}
	defer t.lock.unlock()
	m, left, err := w.mergeBase(ctx, t, rec, to)
	switch names := marked(left); {
	case err != nil:
		return err
	case len(names) > 0:
		return markersLeft(t.op, names)
	case m.To == "":
		return nil
	case len(m.Conflicts) > len(left):
		return m.refused(t.op, left)
	}
	u, err := w.openUpdate(ctx, t, m)
	if err != nil {
		return err
	}
	blocked, err := u.blocked()
	if err = errors.Join(err, u.close()); err == nil && len(blocked) > 0 {
		return conflict(t.op, blocked)
	}
	return system(t.op, err)
}

// refused is the error about what this merge would leave, besides what was left before.
func (m merge) refused(op string, before []leftover) error {
	var names []string
	for _, l := range m.Conflicts[len(before):] {
		names = append(names, l.name())
	}
	return conflict(op, names)
}

// fetched locks a task and fetches its base branch. The caller unlocks.
func (w *Workspaces) fetched(ctx context.Context, op string, q Request) (t task, rec record, head string, err error) {
	r, err := q.check(op)
	if err != nil {
		return t, rec, "", err
	}
	if t, rec, err = w.lockCheckout(ctx, op, q.Nonce); err != nil {
		return t, rec, "", err
	}
	if err = q.belongs(op, rec); err == nil {
		head, err = w.fetchBase(ctx, q.Repo, q.BaseBranch, r)
	}
	if err != nil {
		t.lock.unlock()
	}
	return t, rec, head, err
}

// settled loads the record, and finishes a merge that was interrupted.
func (w *Workspaces) settled(ctx context.Context, t task) (record, error) {
	rec, err := t.load()
	if err == nil {
		err = w.ensureMounted(ctx, t)
	}
	if _, statErr := os.Lstat(t.checkout()); err == nil && errors.Is(statErr, fs.ErrNotExist) {
		err = lost(t.op, fmt.Errorf("%s is gone", t.checkout()))
	}
	if _, statErr := os.Lstat(t.gitDir()); err == nil && errors.Is(statErr, fs.ErrNotExist) {
		err = &Error{Kind: Permanent, Op: t.op, Detail: t.gitDir() + " is gone", Err: ErrDamaged}
	}
	if err != nil || rec.Merge == nil {
		return rec, err
	}
	w.log.Info("finishing an interrupted merge", zap.String("task", t.nonce), zap.String("to", rec.Merge.To))
	return rec, w.applyMerge(ctx, t, &rec, *rec.Merge)
}

// applyMerge brings a merge into the work tree, and makes its commit the base. A new one is recorded first,
// once it is known that nothing is in the way.
func (w *Workspaces) applyMerge(ctx context.Context, t task, rec *record, m merge) (err error) {
	u, err := w.openUpdate(ctx, t, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, system(t.op, u.close())) }()
	if rec.Merge == nil {
		blocked, err := u.blocked()
		if err != nil {
			return system(t.op, err)
		}
		if len(blocked) > 0 {
			return conflict(t.op, blocked)
		}
		rec.Merge, rec.Changed = &m, true
		if err := t.save(*rec); err != nil {
			return system(t.op, err)
		}
	}
	if err := errors.Join(u.apply(), w.prepareForWorker(ctx, t)); err != nil {
		return system(t.op, err)
	}
	if err := safefile.SyncDisk(t.checkout()); err != nil {
		return system(t.op, err)
	}
	rec.BaseSHA, rec.Merge, rec.Conflicts = m.To, nil, m.Conflicts
	if m.Tip != "" {
		rec.tip(m.Branch, m.Tip)
	}
	if m.Tip != "" || rec.Known != "" {
		rec.Known = m.Merged
	}
	return system(t.op, t.save(*rec))
}

// mergeBase computes what the work tree shall be with the base branch at a commit, in objects only. To is empty
// if there is nothing to merge, or conflict markers are in the way; left is what waits for a decision already.
// Both sides get the checkout's base as their one parent, whatever their history: a base branch that was
// rewritten is merged by what it holds, too.
func (w *Workspaces) mergeBase(ctx context.Context, t task, rec record,
	to string,
) (m merge, left []leftover, err error) {
	ours, left, err := w.ours(ctx, t, rec)
	if err != nil || to == rec.BaseSHA || len(marked(left)) > 0 {
		return merge{}, left, err
	}
	at, err := w.committedAt(ctx, t, to)
	if err != nil {
		return merge{}, nil, err
	}
	mine, err := w.commitTree(ctx, t, at, ours, "Work tree before merging "+to, rec.BaseSHA)
	if err != nil {
		return merge{}, nil, err
	}
	if _, err := w.git.run(ctx, t.call("update-ref", "refs/retake/before/"+to, mine)); err != nil {
		return merge{}, nil, err
	}
	theirs, err := w.commitTree(ctx, t, at, to+"^{tree}", "Base branch at "+to, rec.BaseSHA)
	if err != nil {
		return merge{}, nil, err
	}
	m, err = w.mergeCommits(ctx, t, mine, theirs, labelBase)
	m.Ours, m.To, m.Conflicts = ours, to, append(slices.Clone(left), m.Conflicts...)
	return m, left, err
}

// ours returns the work tree as a tree, and what in it waits for a decision.
func (w *Workspaces) ours(ctx context.Context, t task, rec record) (tree string, left []leftover, err error) {
	if tree, err = w.snapshot(ctx, t, rec.known()); err != nil {
		return "", nil, err
	}
	left, err = w.unresolved(ctx, t, rec.Conflicts, tree)
	return tree, left, err
}

func (w *Workspaces) committedAt(ctx context.Context, t task, commit string) (time.Time, error) {
	date, err := w.git.run(ctx, t.call("log", "-1", "--format=%ct", commit))
	return unixTime(strings.TrimSpace(date)), err
}

// mergeCommits merges two commits of the task's git directory: what Merged is, and the Conflicts.
func (w *Workspaces) mergeCommits(ctx context.Context, t task, mine, theirs, label string) (merge, error) {
	if !w.git.merges {
		return merge{}, &Error{
			Kind: Permanent, Op: t.op, Detail: "git is too old to merge without touching files",
			Next: "install git 2.38 or newer", Err: ErrCannotMerge,
		}
	}
	names := t.call("update-ref", "--stdin")
	names.stdin = strings.NewReader("update refs/heads/" + labelOurs + " " + mine + "\nupdate refs/heads/" + label +
		" " + theirs + "\n")
	if _, err := w.git.run(ctx, names); err != nil {
		return merge{}, err
	}
	c := t.call("merge-tree", "--write-tree", "-z", "--name-only", "--messages", labelOurs, label)
	c.asks = true
	// A folder that the base branch renamed takes the agent's new files in it along, instead of asking a person.
	c.config = [][2]string{{"merge.directoryRenames", "true"}, {"merge.conflictStyle", "merge"}}
	out, err := w.git.run(ctx, c)
	tree, rest, _ := strings.Cut(out, "\x00")
	switch {
	case err != nil && !errors.Is(err, errNo):
		return merge{}, err
	case !shaForm.MatchString(tree):
		return merge{}, refuse(t.op, "", "git merges to %.80q", tree)
	case err == nil:
		return merge{Merged: tree}, nil
	}
	m := merge{Merged: tree, Conflicts: leftovers(tree, rest)}
	if len(m.Conflicts) == 0 {
		return merge{}, refuse(t.op, "", "git does not say which files conflict: %.200q", rest)
	}
	return m, w.describe(ctx, t, m.Conflicts)
}

// openUpdate gets ready to turn what the work tree holds into what the merge gave.
func (w *Workspaces) openUpdate(ctx context.Context, t task, m merge) (*treeUpdate, error) {
	changes, err := w.changes(ctx, t, m.Ours, m.Merged)
	if err != nil {
		return nil, err
	}
	changes = slices.DeleteFunc(changes, func(c change) bool {
		return c.path == retakeDir || strings.HasPrefix(c.path, retakeDir+"/")
	})
	u, err := newTreeUpdate(t, changes)
	if err != nil {
		return nil, system(t.op, err)
	}
	if err := w.stageMerged(ctx, t, m.Merged, changes); err != nil {
		return nil, errors.Join(err, system(t.op, u.close()))
	}
	return u, nil
}

// stageMerged puts the changed files of the merged tree into the staging folder. Reading the tree refuses paths
// that git never puts into a work tree.
func (w *Workspaces) stageMerged(ctx context.Context, t task, tree string, changes []change) error {
	if err := errors.Join(removeStaleLocks(t.gitDir()), t.clearStage(), os.Mkdir(t.stage(), 0o700)); err != nil {
		return system(t.op, err)
	}
	if _, err := w.staged(ctx, t, "", "read-tree", tree); err != nil {
		return err
	}
	var names strings.Builder
	for _, c := range changes {
		if c.mode != modeNone && c.mode != modeSubmodule {
			names.WriteString(c.path + "\x00")
		}
	}
	_, err := w.staged(ctx, t, names.String(), "checkout-index", "--quiet", "--force", "-z", "--stdin")
	return err
}
