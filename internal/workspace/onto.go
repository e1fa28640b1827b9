package workspace

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.uber.org/zap"

	"retake/internal/sys/crashpoint"
)

// ErrBranchMoved is wrapped when somebody pushed to a branch of ours since Join: joining and delivering again
// takes it in.
var ErrBranchMoved = errors.New("workspace: the branch moved")

// Join merges what people pushed to a branch of ours, and the base branch as far as they merged it, into the
// task's work tree, as Sync does with KeepConflicts. From is the commit of the branch that the work held, empty
// if none is known; To is the one that is there now: DeliverRequest.Onto of the next delivery. Without a record
// of the branch (another director pushed it), all that is on it is merged. ErrNotThere: the branch is gone.
func (w *Workspaces) Join(ctx context.Context, q Request, branch string) (Synced, error) {
	return mended(ctx, w, "join "+q.Nonce, q.Nonce, func() (Synced, error) { return w.joinOnce(ctx, q, branch) })
}

func (w *Workspaces) joinOnce(ctx context.Context, q Request, branch string) (Synced, error) {
	t, rec, base, err := w.fetched(ctx, "join "+q.Nonce, q)
	if err != nil {
		return Synced{}, err
	}
	defer t.lock.unlock()
	r, err := parseRemote(t.op, q.RemoteURL)
	if err != nil {
		return Synced{}, err
	}
	head, err := w.fetchBase(ctx, q.Repo, branch, r)
	if err != nil {
		return Synced{}, err
	}
	s := Synced{From: rec.Tips[branch], To: head}
	held := false
	if s.From != "" {
		if held, err = w.isAncestor(ctx, t, head, s.From); err != nil {
			return Synced{}, err
		}
	}
	if held && len(rec.Conflicts) == 0 {
		return s, nil
	}
	ours, left, err := w.ours(ctx, t, rec)
	if err != nil {
		return Synced{}, err
	}
	if held || len(marked(left)) > 0 {
		if !held {
			s.To = s.From
		}
		return s.waiting(left), nil
	}
	m, err := w.mergeBranch(ctx, t, rec, ours, s.From, head, base)
	if err != nil {
		return Synced{}, err
	}
	m.Branch, m.Conflicts = branch, append(left, m.Conflicts...)
	if err := w.applyMerge(ctx, t, &rec, m); err != nil {
		return Synced{}, err
	}
	w.log.Info("checkout joined with its branch", zap.String("task", q.Nonce), zap.String("branch", branch),
		zap.String("from", s.From),
		zap.String("to", head), zap.Int("conflicts", len(m.Conflicts)))
	s.Merged = true
	return s.waiting(m.Conflicts), nil
}

// mergeBranch computes what the work tree shall be with what people pushed on top of tip. Both sides keep their
// real history: a merge of the base branch that people made is known to be one.
func (w *Workspaces) mergeBranch(ctx context.Context, t task, rec record, ours, tip, head, base string) (merge, error) {
	parents, err := w.withBase(ctx, t, tip, rec.BaseSHA)
	if err != nil {
		return merge{}, err
	}
	at, err := w.committedAt(ctx, t, head)
	if err != nil {
		return merge{}, err
	}
	mine, err := w.commitTree(ctx, t, at, ours, "Work tree before joining "+head, parents...)
	if err != nil {
		return merge{}, err
	}
	m, err := w.mergeCommits(ctx, t, mine, head, labelPushed)
	if err != nil {
		return merge{}, err
	}
	m.Ours, m.Tip = ours, head
	m.To, err = w.mergedBase(ctx, t, rec.BaseSHA, head, base)
	return m, err
}

// withBase are the parents of a commit on top of tip: the base, too, unless tip has it already.
func (w *Workspaces) withBase(ctx context.Context, t task, tip, base string) ([]string, error) {
	if tip == "" {
		return []string{base}, nil
	}
	has, err := w.isAncestor(ctx, t, base, tip)
	if has {
		return []string{tip}, err
	}
	return []string{tip, base}, err
}

// mergedBase is the newer of the checkout's base and what head has of the base branch.
func (w *Workspaces) mergedBase(ctx context.Context, t task, from, head, base string) (string, error) {
	c := t.call("merge-base", head, base)
	c.asks = true
	out, err := w.git.run(ctx, c)
	common := strings.TrimSpace(out)
	if errors.Is(err, errNo) || err == nil && !shaForm.MatchString(common) {
		return from, nil
	}
	if err != nil {
		return "", err
	}
	newer, err := w.isAncestor(ctx, t, from, common)
	if err != nil || !newer {
		return from, err
	}
	return common, nil
}

func (w *Workspaces) isAncestor(ctx context.Context, t task, a, b string) (bool, error) {
	c := t.call("merge-base", "--is-ancestor", a, b)
	c.asks = true
	_, err := w.git.run(ctx, c)
	if errors.Is(err, errNo) {
		return false, nil
	}
	return err == nil, err
}

// top returns the commit that a further delivery to a branch is a child of. Nobody's commits are pushed over:
// what is there must be ours, be in the work, or be what the caller knows. A branch that is gone is made again.
func (w *Workspaces) top(ctx context.Context, t task, rec record, r remote,
	q DeliverRequest,
) (parent, there string, err error) {
	there, err = w.fetchBase(ctx, rec.Repo, q.Branch, r)
	switch {
	case errors.Is(err, ErrNotThere):
		return q.Onto, "", nil
	case err != nil:
		return "", "", err
	case there != q.Onto && there != rec.Tips[q.Branch] && !slices.Contains(rec.Pushed[q.Branch], there):
		return "", "", moved(t.op, q.Branch)
	}
	return there, there, nil
}

func moved(op, branch string) error {
	return &Error{Kind: Transient, Op: op, Err: ErrBranchMoved, Detail: "somebody pushed to " + branch +
		" meanwhile; it is taken in first"}
}

// unseen are the changes that a push on top of parent would bring: what both the base and the branch have otherwise.
func (w *Workspaces) unseen(ctx context.Context, t task, parent, tree string, changes []change) ([]change, error) {
	onTop, err := w.changes(ctx, t, parent, tree)
	if err != nil {
		return nil, err
	}
	fresh := map[string]bool{}
	for _, c := range onTop {
		fresh[c.path] = true
	}
	return slices.DeleteFunc(slices.Clone(changes), func(c change) bool { return !fresh[c.path] }), nil
}

// deliverOnto pushes the tree as a child of what is on the branch.
func (w *Workspaces) deliverOnto(ctx context.Context, t task, rec *record, r remote, q DeliverRequest, tree string,
	changes []change,
) (sha string, err error) {
	parent, there, err := w.top(ctx, t, *rec, r, q)
	if err != nil {
		return "", err
	}
	fresh, err := w.unseen(ctx, t, parent, tree, changes)
	if err != nil {
		return "", err
	}
	if err := q.Check(ctx, &Patch{w: w, task: t, changes: fresh}); err != nil {
		return "", system(t.op, err)
	}
	parents, err := w.withBase(ctx, t, parent, rec.BaseSHA)
	if err != nil {
		return "", err
	}
	same, err := w.ask(ctx, t.op, t.gitDir(), t.lock, "rev-parse", parent+"^{tree}")
	if err != nil {
		return "", err
	}
	if sha = parent; same != tree || len(parents) > 1 {
		if sha, err = w.commitTree(ctx, t, q.AuthoredAt, tree, q.Message, parents...); err != nil {
			return "", err
		}
	}
	if sha == there {
		return sha, nil
	}
	return sha, w.pushTo(ctx, t, rec, r, q.Branch, sha, there)
}

// pushTo puts a commit on a branch that was just seen at a commit of its history; empty: that was not there.
func (w *Workspaces) pushTo(ctx context.Context, t task, rec *record, r remote, branch, sha, there string) error {
	op := "push " + branch
	config, secrets, err := w.credentials(ctx, op, r)
	if err != nil {
		return err
	}
	if err := notePushed(t, rec, branch, sha); err != nil {
		return system(op, err)
	}
	c := t.call(pushArgs(r, branch, sha, there)...)
	c.op, c.config, c.secrets, c.remote = op, config, secrets, true
	crashpoint.Reached("git/push/before")
	_, err = w.git.run(ctx, c)
	crashpoint.Reached("git/push/after")
	if err != nil && KindOf(err) == Conflict {
		return moved(op, branch)
	}
	return err
}
