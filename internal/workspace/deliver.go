package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/safefile"
	"retake/internal/sys/crashpoint"
)

// Who a delivered commit is by.
const (
	commitName  = "Retake"
	commitEmail = "retake@users.noreply.github.com"
)

// DeliverRequest says what to do with a task's work tree.
type DeliverRequest struct {
	Nonce      string
	RemoteURL  string
	Branch     string // wanted name, retake/<issue>-a<attempt>
	BaseBranch string // never pushed to
	// Onto is a commit that this claim pushed to Branch before, or that Join found there; empty: a first
	// delivery. The new commit is a child of what is on Branch, and of the base if that was merged since.
	Onto    string
	Message string // of the commit
	// Unfinished work is shown to people as it is: conflict markers that a merge left in it are no reason to
	// keep it back.
	Unfinished bool
	// Shown is a commit that people can see already; empty: none. A tree like its is nothing to deliver.
	Shown string
	// Validated is an attempt that has validated the work; empty: any tree may go. Another tree than Validation
	// gave it is ErrNotValidated.
	Validated string
	// AuthoredAt is author and committer date, whole seconds, UTC. The same time, message and tree give the same SHA.
	AuthoredAt time.Time
	// Check looks at what would be pushed. With its error nothing is, and Deliver fails with it; nothing is
	// pushed unseen.
	Check func(ctx context.Context, p *Patch) error
}

// Delivery is what stands on the remote now.
type Delivery struct {
	Branch       string // as wanted, or with "-<nonce>" behind it if the name was taken
	SHA          string
	ChangedFiles int // files that differ from the base, at least 1
}

// Deliver commits the work tree on top of the checkout's base and pushes it. Repeating it, after a crash at any
// point or a success, gives the same answer. A branch of the wanted name that we did not push is left alone.
// ErrNothingToDeliver: the tree equals the base, or what is Shown. The agent's own commits and branches don't
// count, only its files, and of these not what StatePaths name. ErrMergeConflict: a merge left conflict markers
// in files, and they are still there in work that is not Unfinished.
//
// With Onto the branch only moves forward, and nobody's commits are pushed over: ErrBranchMoved, transient, if
// somebody pushed to it since Join. Check sees what the branch does not have yet. If it has all of the work,
// nothing is pushed.
func (w *Workspaces) Deliver(ctx context.Context, q DeliverRequest) (Delivery, error) {
	op := "deliver " + q.Nonce
	r, err := parseRemote(op, q.RemoteURL)
	if err = errors.Join(checkNonce(op, q.Nonce), err); err != nil {
		return Delivery{}, err
	}
	if q.Branch == q.BaseBranch || q.AuthoredAt.Unix() <= 0 {
		return Delivery{}, refuse(op, "", "branch %q, base branch %q, time %s: want a branch of its own and a "+
			"time after 1970", q.Branch, q.BaseBranch, q.AuthoredAt)
	}
	if q.Check == nil {
		return Delivery{}, refuse(op, "", "nobody looks at what would be pushed")
	}
	return mended(ctx, w, op, q.Nonce, func() (Delivery, error) { return w.deliverOnce(ctx, op, q, r) })
}

func (w *Workspaces) deliverOnce(ctx context.Context, op string, q DeliverRequest, r remote) (Delivery, error) {
	t, rec, err := w.lockCheckout(ctx, op, q.Nonce)
	if err != nil {
		return Delivery{}, err
	}
	defer t.lock.unlock()
	tree, err := w.snapshot(ctx, t, rec.known())
	if err != nil {
		return Delivery{}, err
	}
	if err := rec.checkValidated(t.op, q.Validated, tree); err != nil {
		return Delivery{}, err
	}
	changes, err := w.changes(ctx, t, rec.BaseSHA, tree)
	if err != nil {
		return Delivery{}, err
	}
	if len(changes) == 0 {
		return Delivery{}, ErrNothingToDeliver
	}
	if q.Shown != "" {
		if shown, err := w.ask(ctx, t.op, t.gitDir(), t.lock, "rev-parse", q.Shown+"^{tree}"); err == nil &&
			shown == tree {
			return Delivery{}, ErrNothingToDeliver
		}
	}
	if !q.Unfinished {
		if err := w.checkResolved(ctx, t, rec, tree); err != nil {
			return Delivery{}, err
		}
	}
	d := Delivery{Branch: q.Branch, ChangedFiles: len(changes)}
	if q.Onto != "" {
		d.SHA, err = w.deliverOnto(ctx, t, &rec, r, q, tree, changes)
	} else {
		d.Branch, d.SHA, err = w.deliverFirst(ctx, t, &rec, r, q, tree, changes)
	}
	if err != nil {
		return Delivery{}, err
	}
	w.log.Info("delivered", zap.String("task", q.Nonce), zap.String("branch", d.Branch), zap.String("sha", d.SHA),
		zap.Int("changed_files", d.ChangedFiles))
	return d, nil
}

// deliverFirst pushes the tree as one commit on top of the base, to a branch that is free.
func (w *Workspaces) deliverFirst(ctx context.Context, t task, rec *record, r remote, q DeliverRequest, tree string,
	changes []change,
) (branch, sha string, err error) {
	if err := q.Check(ctx, &Patch{w: w, task: t, changes: changes}); err != nil {
		return "", "", system(t.op, err)
	}
	if sha, err = w.commitTree(ctx, t, q.AuthoredAt, tree, q.Message, rec.BaseSHA); err != nil {
		return "", "", err
	}
	branch, err = w.push(ctx, t, rec, r, q.Branch, sha)
	return branch, sha, err
}

// lockCheckout locks a task and loads its record, once an interrupted merge is finished. The caller unlocks.
func (w *Workspaces) lockCheckout(ctx context.Context, op, nonce string) (t task, rec record, err error) {
	lock, err := w.lockTask(ctx, nonce)
	if err != nil {
		return t, rec, err
	}
	t = w.task(op, nonce, lock)
	if rec, err = w.settled(ctx, t); err != nil {
		lock.unlock()
	}
	return t, rec, err
}

// snapshot writes what lies in the checkout as a tree object, on top of a base that says which ignored files
// and which files of agents are tracked all the same. Git sees a staging folder of ours, never the checkout.
// ErrTooMuch: the checkout is beyond the limits.
func (w *Workspaces) snapshot(ctx context.Context, t task, base string) (tree string, err error) {
	if err := errors.Join(removeStaleLocks(t.gitDir()), t.clearStage()); err != nil {
		return "", system(t.op, err)
	}
	if err := w.measure(ctx, t); err != nil {
		return "", err
	}
	defer func() {
		if cleanErr := t.clearStage(); cleanErr != nil {
			err = errors.Join(err, system(t.op, cleanErr))
		}
	}()
	leaveOut, err := w.leaveOutState(ctx, t, base)
	if err != nil {
		return "", err
	}
	if err := stageTree(ctx, t.op, t.checkout(), t.stage(), w.copyLimit(t), leaveOut); err != nil {
		return "", system(t.op, err)
	}
	if _, err := w.staged(ctx, t, "", "read-tree", base); err != nil {
		return "", err
	}
	if err := w.measureWork(ctx, t); err != nil {
		return "", err
	}
	// The exclusion keeps a .retake that the base already has: neither changed nor deleted.
	if _, err := w.staged(ctx, t, "", "add", "--all", "--", ".", ":(exclude,top)"+retakeDir); err != nil {
		return "", err
	}
	tree, err = w.staged(ctx, t, "", "write-tree")
	return strings.TrimSpace(tree), err
}

// staged runs git with the staging folder as its work tree.
func (w *Workspaces) staged(ctx context.Context, t task, stdin string, args ...string) (string, error) {
	return w.git.run(ctx, t.stagedCall(stdin, args...))
}

func (t task) stagedCall(stdin string, args ...string) call {
	c := t.call(args...)
	c.dir, c.stdin, c.env = t.stage(), strings.NewReader(stdin), []string{
		"GIT_WORK_TREE=" + t.stage(),
		"GIT_INDEX_FILE=" + t.index(),
	}
	return c
}

// commitTree makes the same commit for the same arguments.
func (w *Workspaces) commitTree(ctx context.Context, t task, at time.Time, tree, message string,
	parents ...string,
) (string, error) {
	args := []string{"commit-tree", tree, "-F", "-"}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	c := t.call(args...)
	c.env, c.stdin = identity(at), strings.NewReader(cleanMessage(message))
	sha, err := w.git.run(ctx, c)
	return strings.TrimSpace(sha), err
}

func (t task) clearStage() error {
	return errors.Join(safefile.RemoveAll(t.stage()), safefile.RemoveAll(t.index()),
		safefile.RemoveAll(t.index()+".lock"))
}

func identity(at time.Time) []string {
	date := fmt.Sprintf("%d +0000", at.Unix())
	return []string{
		"GIT_AUTHOR_NAME=" + commitName, "GIT_AUTHOR_EMAIL=" + commitEmail, "GIT_AUTHOR_DATE=" + date,
		"GIT_COMMITTER_NAME=" + commitName, "GIT_COMMITTER_EMAIL=" + commitEmail, "GIT_COMMITTER_DATE=" + date,
	}
}

// cleanMessage makes any text a message that git takes as it is.
func cleanMessage(m string) string {
	m = strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(m, "\x00", ""), "?"))
	if m == "" {
		m = "Retake"
	}
	return m + "\n"
}

// pushTries bounds how often somebody may take the branch between our look and our push.
const pushTries = 3

// push puts the commit on the remote and returns the branch that has it now.
func (w *Workspaces) push(ctx context.Context, t task, rec *record, r remote, branch, sha string) (string, error) {
	op := "push " + branch
	config, secrets, err := w.credentials(ctx, op, r)
	if err != nil {
		return "", err
	}
	git := func(args ...string) (string, error) {
		c := t.call(args...)
		c.op, c.config, c.secrets, c.remote = op, config, secrets, true
		return w.git.run(ctx, c)
	}
	names := []string{branch, branch + "-" + t.nonce}
	for try := 1; ; try++ {
		heads, err := git("ls-remote", "--quiet", "--heads", "--", r.url, "refs/heads/"+names[0], "refs/heads/"+
			names[1])
		if err != nil {
			return "", err
		}
		name, expect, ok := choose(names, parseHeads(heads), rec.Pushed, sha)
		switch {
		case !ok:
			return "", &Error{Kind: Conflict, Op: op, Detail: "the remote has other content in " +
				strings.Join(names, " and in "), Next: "rename or delete one of them"}
		case expect == sha:
			return name, nil
		}
		if err := notePushed(t, rec, name, sha); err != nil {
			return "", system(op, err)
		}
		crashpoint.Reached("git/push/before")
		_, err = git(pushArgs(r, name, sha, expect)...)
		crashpoint.Reached("git/push/after")
		if err == nil {
			return name, nil
		}
		if KindOf(err) != Conflict || try == pushTries {
			return "", err
		}
	}
}

// pushArgs push a commit to a branch that is at expect; empty: that is not there.
func pushArgs(r remote, branch, sha, expect string) []string {
	return []string{
		"push", "--quiet", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no",
		"--force-with-lease=refs/heads/" + branch + ":" + expect, "--", r.url, sha + ":refs/heads/" + branch,
	}
}

// choose picks the first name that is free, or ours, or has the commit already (then expect equals sha).
func choose(names []string, heads map[string]string, pushed map[string][]string,
	sha string,
) (name, expect string, ok bool) {
	for _, name := range names {
		at := heads[name]
		if at == "" || at == sha || slices.Contains(pushed[name], at) {
			return name, at, true
		}
	}
	return "", "", false
}

func parseHeads(out string) map[string]string {
	heads := map[string]string{}
	for line := range strings.Lines(out) {
		sha, ref, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
			heads[name] = sha
		}
	}
	return heads
}

// notePushed notes, before the push, that this commit on this branch is ours.
func notePushed(t task, rec *record, branch, sha string) error {
	if slices.Contains(rec.Pushed[branch], sha) && rec.Tips[branch] == sha {
		return nil
	}
	rec.tip(branch, sha)
	if rec.Pushed == nil {
		rec.Pushed = map[string][]string{}
	}
	if !slices.Contains(rec.Pushed[branch], sha) {
		rec.Pushed[branch] = append(rec.Pushed[branch], sha)
	}
	return t.save(*rec)
}
