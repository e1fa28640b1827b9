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
	lock, err := w.lockTask(ctx, q.Nonce)
	if err != nil {
		return Synced{}, err
	}
	defer lock.unlock()
	t := w.task(q.Nonce, lock)
	rec, err := w.settled(ctx, op, t)
	if err == nil {
		err = q.belongs(op, rec)
	}
	if err != nil {
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
	m, err := w.merge(ctx, op, t, from, to)
	if err != nil {
		return Synced{}, err
	}
	if err := w.carryOut(ctx, op, t, m, rec); err != nil {
		return Synced{}, err
	}
	w.log.Info("checkout merged with its base branch", zap.String("task", q.Nonce), zap.String("repo", q.Repo), zap.String("from", from), zap.String("to", to))
	return Synced{From: from, To: to, Merged: true}, nil
}

// settled loads the record, and finishes a merge that was interrupted.
func (w *Workspaces) settled(ctx context.Context, op string, t task) (rec record, err error) {
	rec, err = t.load(op)
	if err != nil || rec.Merge == nil {
		return rec, err
	}
	w.log.Info("finishing an interrupted merge", zap.String("task", t.nonce), zap.String("to", rec.Merge.To))
	a, err := w.application(ctx, op, t, *rec.Merge)
	if err != nil {
		return rec, err
	}
	defer func() { err = errors.Join(err, system(op, a.close())) }()
	return w.finish(op, t, a)
}

// carryOut brings a new merge into the work tree: first it looks whether it can, then it records that it will.
func (w *Workspaces) carryOut(ctx context.Context, op string, t task, m merge, rec record) (err error) {
	a, err := w.application(ctx, op, t, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, system(op, a.close())) }()
	blocked, err := a.blocked()
	if err != nil {
		return system(op, err)
	}
	if len(blocked) > 0 {
		return conflict(op, blocked)
	}
	rec.Merge = &m
	if err := t.save(rec); err != nil {
		return system(op, err)
	}
	_, err = w.finish(op, t, a)
	return err
}

// finish carries out what is on record, and makes the merge's commit the base.
func (w *Workspaces) finish(op string, t task, a *application) (record, error) {
	rec, err := t.load(op)
	if err != nil {
		return rec, err
	}
	if err := errors.Join(a.apply(), w.handOver(t)); err != nil {
		return rec, system(op, err)
	}
	rec.BaseSHA, rec.Merge = rec.Merge.To, nil
	return rec, system(op, t.save(rec))
}

// merge computes what the work tree shall be, in objects only. Both sides get the checkout's base as their one parent,
// whatever their history: a base branch that was rewritten is merged by what it holds, too.
func (w *Workspaces) merge(ctx context.Context, op string, t task, from, to string) (merge, error) {
	ours, err := w.snapshot(ctx, op, t, from)
	if err != nil {
		return merge{}, err
	}
	date, err := w.objects(ctx, op, t, "log", "-1", "--format=%ct", to)
	if err != nil {
		return merge{}, err
	}
	at := unixTime(strings.TrimSpace(date))
	mine, err := w.commitTree(ctx, op, t, at, ours, from, "Work tree before merging "+to)
	if err != nil {
		return merge{}, err
	}
	if _, err := w.objects(ctx, op, t, "update-ref", "refs/retake/before/"+to, mine); err != nil {
		return merge{}, err
	}
	theirs, err := w.commitTree(ctx, op, t, at, to+"^{tree}", from, "Base branch at "+to)
	if err != nil {
		return merge{}, err
	}
	out, err := w.git.run(ctx, call{
		op: op, dir: t.dir, gitDir: t.gitDir(), lock: t.lock, asks: true,
		// A folder that the base branch renamed takes the agent's new files in it along, instead of asking a person.
		config: [][2]string{{"merge.directoryRenames", "true"}},
		args:   []string{"merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", mine, theirs},
	})
	tree, rest, _ := strings.Cut(out, "\x00")
	switch files := strings.Trim(rest, "\x00"); {
	case errors.Is(err, errNo) && files != "":
		return merge{}, conflict(op, strings.Split(files, "\x00"))
	case err == nil && !shaForm.MatchString(tree):
		err = refuse(op, "", "git merges to %.80q", tree)
	}
	return merge{Ours: ours, Merged: tree, To: to}, err
}

// application gets ready to turn what the work tree holds into what the merge gave.
func (w *Workspaces) application(ctx context.Context, op string, t task, m merge) (*application, error) {
	changes, err := w.changes(ctx, op, t, m.Ours, m.Merged)
	if err != nil {
		return nil, err
	}
	changes = slices.DeleteFunc(changes, func(c change) bool {
		return c.path == retakeDir || strings.HasPrefix(c.path, retakeDir+"/")
	})
	if err := w.stageMerged(ctx, op, t, m.Merged, changes); err != nil {
		return nil, errors.Join(err, system(op, t.clearStage()))
	}
	a, err := openApplication(t, changes)
	if err != nil {
		return nil, errors.Join(system(op, err), system(op, t.clearStage()))
	}
	return a, nil
}

// stageMerged puts the changed files of the merged tree into the staging folder. Reading the tree refuses paths that git
// never puts into a work tree.
func (w *Workspaces) stageMerged(ctx context.Context, op string, t task, tree string, changes []change) error {
	if err := errors.Join(removeStaleLocks(t.gitDir()), t.clearStage(), os.Mkdir(t.stage(), 0o700)); err != nil {
		return system(op, err)
	}
	if _, err := w.staged(ctx, op, t, "", "read-tree", tree); err != nil {
		return err
	}
	var names strings.Builder
	for _, c := range changes {
		if c.mode != modeNone && c.mode != modeSubmodule {
			names.WriteString(c.path + "\x00")
		}
	}
	_, err := w.staged(ctx, op, t, names.String(), "checkout-index", "--quiet", "--force", "-z", "--stdin")
	return err
}

// objects runs git on the task's objects and refs, without any work tree.
func (w *Workspaces) objects(ctx context.Context, op string, t task, args ...string) (string, error) {
	return w.git.run(ctx, call{op: op, dir: t.dir, gitDir: t.gitDir(), lock: t.lock, args: args})
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
		Kind: Conflict, Op: op, Err: ErrMergeConflict, Files: files,
		Detail: "the base branch and the work here don't go together in " + text,
		Next:   "start the issue afresh from the base branch, or raise the limits of policy.sync_main to hand in the work on its old base",
	}
}
