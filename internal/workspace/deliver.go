package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/sys/crashpoint"
)

// Author of delivered commits.
const (
	commitName  = "Retake"
	commitEmail = "retake@users.noreply.github.com"
)

// DeliverRequest is the request to deliver a task's work tree.
type DeliverRequest struct {
	Nonce      string
	RemoteURL  string
	Branch     string // wanted name, retake/<issue>-a<attempt>
	BaseBranch string // never pushed to
	// Onto is a commit that this claim pushed to Branch before, or that Join found there. The new commit is a child of
	// the branch's head. If Sync has merged the base branch since, it is also a child of the base commit. Empty means a
	// first delivery.
	Onto    string
	Message string // commit message
	// Unfinished allows conflict markers in the work, so that a person can see the current state.
	Unfinished bool
	// Shown is a commit that is already visible on GitHub, or empty. If the work tree equals the tree of that commit,
	// there is nothing to deliver.
	Shown string
	// Validated is the attempt that validated the work. Deliver returns ErrNotValidated unless the tree equals the
	// result of Validation. Empty allows any tree.
	Validated string
	// AuthoredAt is the author and committer date in whole seconds, UTC. The same time, message, tree and parents
	// produce the same SHA.
	AuthoredAt time.Time
	// Check inspects the content before the push. If it fails, Deliver returns its error without pushing.
	Check func(ctx context.Context, p *Patch) error
}

// Delivery is the state of the remote after Deliver.
type Delivery struct {
	Branch       string // the wanted name, with "-<nonce>" appended if taken
	SHA          string
	ChangedFiles int // files that differ from the base, at least 1
}

// Deliver commits the work tree on top of the checkout's base and pushes the commit. It is idempotent, even across a
// crash. If someone else has pushed a branch with the wanted name, Deliver leaves that branch unchanged. It ignores the
// agent's commits and branches, and files that match StatePaths. ErrNothingToDeliver means that the tree equals the
// base, or Shown. ErrMergeConflict means that the work contains a merge's conflict markers and Unfinished is not set.
//
// With Onto, the branch only moves forward, so Deliver never overwrites commits. If people have pushed to the branch
// since Join, Deliver fails with ErrBranchMoved, which is transient. Check gets the changes missing from the branch. If
// the branch already has all of the work, Deliver does not push.
func (w *Workspaces) Deliver(ctx context.Context, q DeliverRequest) (Delivery, error) {
	op := "deliver " + q.Nonce
	r, err := parseRemote(op, q.RemoteURL)
	if err = errors.Join(checkNonce(op, q.Nonce), err); err != nil {
		return Delivery{}, err
	}
	if q.Branch == q.BaseBranch || q.AuthoredAt.Unix() <= 0 {
		return Delivery{}, refuse(op, "", "branch %q, base branch %q, time %s: want a separate branch and a "+
			"time after 1970", q.Branch, q.BaseBranch, q.AuthoredAt)
	}
	if q.Check == nil {
		return Delivery{}, refuse(op, "", "Check is nil")
	}
	return onCheckout(ctx, w, op, q.Nonce, func(t *task) (done Delivery, err error) {
		d := delivery{q: q, remote: r, task: t, mirrors: w.mirrors, remotes: w.mirrors.remotes}
		if d.snapshot, err = w.snapshots.take(ctx, t, t.rec.known()); err != nil {
			return done, err
		}
		if done, err = d.deliver(ctx); err == nil {
			w.log.Info("delivered", zap.String("task", q.Nonce), zap.String("branch", done.Branch),
				zap.String("sha", done.SHA), zap.Int("changed_files", done.ChangedFiles))
		}
		return done, err
	})
}

// delivery is the state of one Deliver call.
type delivery struct {
	q      DeliverRequest
	remote remote
	task   *task
	snapshot
	changes []change // changes from the base to tree
	mirrors *mirrors
	remotes *remotes
}

func (d *delivery) deliver(ctx context.Context) (done Delivery, err error) {
	t := d.task
	if err := t.rec.checkValidated(t.op, d.q.Validated, d.tree); err != nil {
		return done, err
	}
	if d.changes, err = t.changes(ctx, t.rec.BaseSHA, d.tree); err != nil {
		return done, err
	}
	if len(d.changes) == 0 {
		return done, d.nothing(ctx)
	}
	if d.q.Shown != "" {
		if shown, err := t.ask(ctx, "rev-parse", d.q.Shown+"^{tree}"); err == nil && shown == d.tree {
			return done, ErrNothingToDeliver
		}
	}
	if !d.q.Unfinished {
		left, err := t.unresolved(ctx, t.rec.Conflicts, d.tree)
		if err == nil {
			err = markersLeft(t.op, marked(left))
		}
		if err != nil {
			return done, err
		}
	}
	done = Delivery{Branch: d.q.Branch, ChangedFiles: len(d.changes)}
	if d.q.Onto != "" {
		done.SHA, err = d.onto(ctx)
	} else {
		done.Branch, done.SHA, err = d.first(ctx)
	}
	return done, err
}

// nothing returns ErrNothingToDeliver, unless Check refuses the files that the tree cannot contain.
func (d *delivery) nothing(ctx context.Context) error {
	if len(d.left) > 0 {
		if err := d.check(ctx, nil); err != nil {
			return err
		}
	}
	return ErrNothingToDeliver
}

func (d *delivery) check(ctx context.Context, changes []change) error {
	return system(d.task.op, d.q.Check(ctx, &Patch{
		LeftOut: slices.Concat(d.left, nestedIn(d.nested, changes)),
		objects: d.task.objects, task: d.task, tree: d.tree, changes: changes, all: d.changes,
	}))
}

func (d *delivery) commit(ctx context.Context, parents ...string) (string, error) {
	return d.task.commit(ctx, d.q.AuthoredAt, d.tree, d.q.Message, parents...)
}

// pushTries is the maximum number of pushes in a first delivery. A push is retried if someone else pushes to the same
// branch name concurrently.
const pushTries = 3

// first pushes the tree to a free branch, as one commit on top of the base, and returns that branch.
func (d *delivery) first(ctx context.Context) (branch, sha string, err error) {
	t := d.task
	if err := d.check(ctx, d.changes); err != nil {
		return "", "", err
	}
	if sha, err = d.commit(ctx, t.rec.BaseSHA); err != nil {
		return "", "", err
	}
	op := "push " + d.q.Branch
	names := []string{d.q.Branch, d.q.Branch + "-" + t.nonce}
	for try := 1; ; try++ {
		listing := t.call()
		listing.op = op
		heads, err := d.remotes.heads(ctx, listing, d.remote, names...)
		if err != nil {
			return "", "", err
		}
		name, expect, ok := choose(names, heads, t.rec.Pushed, sha)
		switch {
		case !ok:
			return "", "", &Error{Kind: Conflict, Op: op, Detail: "the remote has other commits on " +
				strings.Join(names, " and on "), Next: "rename or delete one of these branches"}
		case expect == sha:
			return name, sha, nil
		}
		err = d.push(ctx, op, name, sha, expect)
		if err == nil {
			return name, sha, nil
		}
		if KindOf(err) != Conflict || try == pushTries {
			return "", "", err
		}
	}
}

// onto pushes the tree as a child of the branch's head.
func (d *delivery) onto(ctx context.Context) (sha string, err error) {
	t := d.task
	parent, there, err := d.top(ctx)
	if err != nil {
		return "", err
	}
	fresh, err := d.unseen(ctx, parent)
	if err != nil {
		return "", err
	}
	if err := d.check(ctx, fresh); err != nil {
		return "", err
	}
	parents, err := t.parents(ctx, parent, t.rec.BaseSHA)
	if err != nil {
		return "", err
	}
	same, err := t.ask(ctx, "rev-parse", parent+"^{tree}")
	if err != nil {
		return "", err
	}
	if sha = parent; same != d.tree || len(parents) > 1 {
		if sha, err = d.commit(ctx, parents...); err != nil {
			return "", err
		}
	}
	if sha == there {
		return sha, nil
	}
	op := "push " + d.q.Branch
	err = d.push(ctx, op, d.q.Branch, sha, there)
	if err != nil && KindOf(err) == Conflict {
		err = moved(op, d.q.Branch)
	}
	return sha, err
}

// top returns the parent of the next commit, and the branch's current head. It fails with ErrBranchMoved unless we
// pushed the head, the work contains it, or the caller passed it in Onto. If the branch was deleted, the head is "",
// the parent is Onto, and the push recreates the branch.
func (d *delivery) top(ctx context.Context) (parent, there string, err error) {
	rec, branch := &d.task.rec, d.q.Branch
	there, err = d.mirrors.head(ctx, rec.Repo, branch, d.remote)
	switch {
	case errors.Is(err, ErrNotThere):
		return d.q.Onto, "", nil
	case err != nil:
		return "", "", err
	case there != d.q.Onto && there != rec.Tips[branch] && !slices.Contains(rec.Pushed[branch], there):
		return "", "", moved(d.task.op, branch)
	}
	return there, there, nil
}

// unseen returns the changes since the base that parent does not contain yet.
func (d *delivery) unseen(ctx context.Context, parent string) ([]change, error) {
	onTop, err := d.task.changes(ctx, parent, d.tree)
	if err != nil {
		return nil, err
	}
	fresh := map[string]bool{}
	for _, c := range onTop {
		fresh[c.path] = true
	}
	return slices.DeleteFunc(slices.Clone(d.changes), func(c change) bool { return !fresh[c.path] }), nil
}

// push records a commit as ours and pushes it to a branch. The branch must be at expect. If expect is empty, the branch
// must not exist.
func (d *delivery) push(ctx context.Context, op, branch, sha, expect string) error {
	t := d.task
	if t.rec.push(branch, sha) {
		if err := t.save(); err != nil {
			return err
		}
	}
	c := t.call(
		"push", "--quiet", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no",
		"--force-with-lease=refs/heads/"+branch+":"+expect, "--", d.remote.url, sha+":refs/heads/"+branch)
	c.op = op
	crashpoint.Reached("git/push/before")
	_, err := d.remotes.run(ctx, c, d.remote)
	crashpoint.Reached("git/push/after")
	return err
}

// ErrBranchMoved means that people have pushed to one of our branches since Join. Call Join again to include their
// commits.
var ErrBranchMoved = errors.New("workspace: the branch moved")

func moved(op, branch string) error {
	return &Error{Kind: Transient, Op: op, Err: ErrBranchMoved, Detail: branch +
		" has new commits, which must be merged first"}
}

func identity(at time.Time) []string {
	date := fmt.Sprintf("%d +0000", at.Unix())
	return []string{
		"GIT_AUTHOR_NAME=" + commitName, "GIT_AUTHOR_EMAIL=" + commitEmail, "GIT_AUTHOR_DATE=" + date,
		"GIT_COMMITTER_NAME=" + commitName, "GIT_COMMITTER_EMAIL=" + commitEmail, "GIT_COMMITTER_DATE=" + date,
	}
}

// cleanMessage turns any text into a commit message that git accepts.
func cleanMessage(m string) string {
	m = strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(m, "\x00", ""), "?"))
	if m == "" {
		m = "Retake"
	}
	return m + "\n"
}

// choose returns the first branch name that is free on the remote, or that points to sha or to a commit that we pushed.
// expect is the branch's current head, or "" if the name is free.
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

// heads returns the commits of a remote's branches that match patterns.
func (s *remotes) heads(ctx context.Context, c call, r remote, patterns ...string) (map[string]string, error) {
	c.args = []string{"ls-remote", "--quiet", "--heads", "--", r.url}
	for _, p := range patterns {
		c.args = append(c.args, "refs/heads/"+p)
	}
	out, err := s.run(ctx, c, r)
	heads := map[string]string{}
	for line := range strings.Lines(out) {
		sha, ref, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if name, ok := strings.CutPrefix(ref, "refs/heads/"); ok {
			heads[name] = sha
		}
	}
	return heads, err
}
