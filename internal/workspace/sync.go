package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"
)

// Synced is what Sync did.
type Synced struct {
	From, To string // base before and now
	Merged   bool   // false: there was nothing newer
}

// merge is a merge that was computed: the work tree holds Ours, or partly Merged already, and shall hold Merged.
type merge struct {
	Ours   string `json:"ours"`   // tree
	Merged string `json:"merged"` // tree
	To     string `json:"to"`     // commit: the new base
}

// Sync merges the base branch, as it is on the remote now, into the task's work tree. What an agent left there, committed
// or not, stays as its changes on top of the new base; the next Deliver makes one commit of them there. What it looked
// like before is kept in the task's git directory under refs/retake/before/<new base>. Ignored files stay, unless the base
// branch now has a file of that name.
//
// ErrMergeConflict, of Kind Conflict with the names in Files: nothing was touched. ErrCannotMerge: git is older than 2.38.
// No worker may be running in the checkout. After a crash, the next operation on the checkout finishes what was begun.
func (w *Workspaces) Sync(ctx context.Context, q Request) (Synced, error) {
	op := "sync " + q.Nonce
	r, err := q.check(op)
	if err != nil {
		return Synced{}, err
	}
	t, rec, err := w.lockCheckout(ctx, op, q.Nonce)
	if err != nil {
		return Synced{}, err
	}
	defer t.lock.unlock()
	if err := q.belongs(op, rec); err != nil {
		return Synced{}, err
	}
	from := rec.BaseSHA
	to, err := w.fetchBase(ctx, q.Repo, q.BaseBranch, r)
	if err != nil || to == from {
		return Synced{From: from, To: from}, err
	}
	if !w.git.merges {
		return Synced{}, &Error{Kind: Permanent, Op: op, Detail: "git is too old to merge without touching files", Next: "install git 2.38 or newer", Err: ErrCannotMerge}
	}
	m, err := w.merge(ctx, t, from, to)
	if err != nil {
		return Synced{}, err
	}
	if err := w.applyMerge(ctx, t, &rec, m); err != nil {
		return Synced{}, err
	}
	w.log.Info("checkout merged with its base branch", zap.String("task", q.Nonce), zap.String("repo", q.Repo), zap.String("from", from), zap.String("to", to))
	return Synced{From: from, To: to, Merged: true}, nil
}

// settled loads the record, and finishes a merge that was interrupted.
func (w *Workspaces) settled(ctx context.Context, t task) (record, error) {
	rec, err := t.load()
	if err != nil || rec.Merge == nil {
		return rec, err
	}
	w.log.Info("finishing an interrupted merge", zap.String("task", t.nonce), zap.String("to", rec.Merge.To))
	return rec, w.applyMerge(ctx, t, &rec, *rec.Merge)
}

// applyMerge brings a merge into the work tree, and makes its commit the base. A new one is recorded first, once it is known
// that nothing is in the way.
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
		rec.Merge = &m
		if err := t.save(*rec); err != nil {
			return system(t.op, err)
		}
	}
	if err := errors.Join(u.apply(), w.prepareForWorker(t)); err != nil {
		return system(t.op, err)
	}
	rec.BaseSHA, rec.Merge = m.To, nil
	return system(t.op, t.save(*rec))
}

// merge computes what the work tree shall be, in objects only. Both sides get the checkout's base as their one parent,
// whatever their history: a base branch that was rewritten is merged by what it holds, too.
func (w *Workspaces) merge(ctx context.Context, t task, from, to string) (merge, error) {
	ours, err := w.snapshot(ctx, t, from)
	if err != nil {
		return merge{}, err
	}
	date, err := w.git.run(ctx, t.call("log", "-1", "--format=%ct", to))
	if err != nil {
		return merge{}, err
	}
	at := unixTime(strings.TrimSpace(date))
	mine, err := w.commitTree(ctx, t, at, ours, from, "Work tree before merging "+to)
	if err != nil {
		return merge{}, err
	}
	if _, err := w.git.run(ctx, t.call("update-ref", "refs/retake/before/"+to, mine)); err != nil {
		return merge{}, err
	}
	theirs, err := w.commitTree(ctx, t, at, to+"^{tree}", from, "Base branch at "+to)
	if err != nil {
		return merge{}, err
	}
	c := t.call("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", mine, theirs)
	c.asks = true
	// A folder that the base branch renamed takes the agent's new files in it along, instead of asking a person.
	c.config = [][2]string{{"merge.directoryRenames", "true"}}
	out, err := w.git.run(ctx, c)
	tree, rest, _ := strings.Cut(out, "\x00")
	switch files := strings.Trim(rest, "\x00"); {
	case errors.Is(err, errNo) && files != "":
		return merge{}, conflict(t.op, strings.Split(files, "\x00"))
	case err == nil && !shaForm.MatchString(tree):
		err = refuse(t.op, "", "git merges to %.80q", tree)
	}
	return merge{Ours: ours, Merged: tree, To: to}, err
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

// stageMerged puts the changed files of the merged tree into the staging folder. Reading the tree refuses paths that git
// never puts into a work tree.
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

// mostConflicts is how many names an error's text has: as many as a person reads.
const mostConflicts = 10

func conflict(op string, files []string) error {
	slices.Sort(files)
	files = slices.Compact(files)
	named := make([]string, min(len(files), mostConflicts))
	for i := range named {
		if named[i] = files[i]; !utf8.ValidString(files[i]) || strings.ContainsFunc(files[i], unicode.IsControl) {
			named[i] = strconv.QuoteToASCII(files[i])
		}
	}
	text := strings.Join(named, ", ")
	if more := len(files) - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return &Error{
		Kind: Conflict, Op: op, Err: ErrMergeConflict,
		Detail: "the base branch and the work here don't go together in " + text,
		Next:   "start the issue afresh from the base branch, or raise the limits of policy.sync_main to hand in the work on its old base",
	}
}
