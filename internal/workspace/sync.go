package workspace

import (
	"context"
	"slices"

	"go.uber.org/zap"
)

// SyncOptions control how Sync handles conflicts.
type SyncOptions struct {
	// KeepConflicts leaves git's conflict markers in the files for the next attempt to resolve, and still moves the
	// base. Deliver refuses the work until the attempt has resolved them. Without KeepConflicts, a conflict is an error
	// and the work tree stays unchanged.
	KeepConflicts bool
}

// Synced is the result of Sync or Join.
type Synced struct {
	// From and To are the old and new base. For Join, they are the branch commits that the work contained before and
	// after the call.
	From, To string
	// Merged is false if the base was current, or if conflict markers from an earlier merge remain.
	Merged bool
	// Conflicts lists the files with conflicts, including conflicts from earlier merges.
	Conflicts []string
	// Left describes each of the Conflicts, as in "a.txt: has conflict markers".
	Left []string
}

// waiting returns s with the given conflicts added to Conflicts and Left.
func (s Synced) waiting(files []leftover) Synced {
	for _, l := range files {
		s.Conflicts = append(s.Conflicts, l.name())
		s.Left = append(s.Left, printable(l.name())+": "+l.Note)
	}
	return s
}

// Sync merges the current base branch of the remote into the task's work tree. The agent's work, committed or not,
// becomes uncommitted changes on top of the new base, and the next Deliver turns them into one commit. Sync keeps the
// earlier state in the task's git directory under refs/retake/before/<new base>. Ignored files stay, unless the base
// branch now has a file with the same name.
//
// If Sync returns ErrMergeConflict, it has not changed any files. The error has Kind Conflict, and its text lists the
// conflicting files. With KeepConflicts, this happens only if ignored files block the merge. Sync does not merge into a
// work tree with conflict markers from an earlier merge. ErrCannotMerge means that git is older than 2.38. No worker
// may be running in the checkout. After a crash, the next operation on the checkout finishes the merge.
func (w *Workspaces) Sync(ctx context.Context, q Request, o SyncOptions) (Synced, error) {
	return onFetched(ctx, w, "sync "+q.Nonce, q, func(t *task, to string) (Synced, error) {
		from := t.rec.BaseSHA
		if to == from && (len(t.rec.Conflicts) == 0 || !o.KeepConflicts) {
			return Synced{From: from, To: from}, nil
		}
		m, left, err := w.snapshots.mergeBase(ctx, t, to)
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
		if err := w.trees.apply(ctx, t, m); err != nil {
			return Synced{}, err
		}
		w.log.Info("merged the base branch into the checkout", zap.String("task", q.Nonce), zap.String("repo", q.Repo),
			zap.String("from", from), zap.String("to", to), zap.Int("conflicts", len(m.Conflicts)))
		return Synced{From: from, To: to, Merged: true}.waiting(m.Conflicts), nil
	})
}

// Mergeable returns nil if the task's work merges cleanly with the current base branch of the remote. It has no side
// effects. If there is a conflict, it returns ErrMergeConflict, and the error text lists the files. No worker may be
// running in the checkout.
func (w *Workspaces) Mergeable(ctx context.Context, q Request) error {
	_, err := onFetched(ctx, w, "try to merge "+q.Nonce, q, func(t *task, to string) (none struct{}, err error) {
		m, left, err := w.snapshots.mergeBase(ctx, t, to)
		switch names := marked(left); {
		case err != nil:
			return none, err
		case len(names) > 0:
			return none, markersLeft(t.op, names)
		case m.To == "":
			return none, nil
		case len(m.Conflicts) > len(left):
			return none, m.refused(t.op, left)
		}
		u, err := openUpdate(ctx, t, m)
		if err != nil {
			return none, err
		}
		err = u.checkBlocked()
		if closed := u.close(); err == nil {
			err = system(t.op, closed)
		}
		return none, err
	})
	return err
}

// onFetched is like onCheckout, but fetches the base branch first and passes its head to do.
func onFetched[T any](ctx context.Context, w *Workspaces, op string, q Request,
	do func(t *task, head string) (T, error),
) (none T, err error) {
	r, err := q.check(op)
	if err != nil {
		return none, err
	}
	return onCheckout(ctx, w, op, q.Nonce, func(t *task) (none T, err error) {
		if err := t.rec.belongs(op, q); err != nil {
			return none, err
		}
		head, err := w.mirrors.head(ctx, q.Repo, q.BaseBranch, r)
		if err != nil {
			return none, err
		}
		return do(t, head)
	})
}

// mergeBase merges to, a commit of the base branch, with the work tree, without touching files. m.To is empty if there
// is nothing to merge or if conflict markers remain. left contains the earlier conflicts. Both sides get the checkout's
// base as their only parent, regardless of their history, so git can merge the base branch even after a force-push.
func (s *snapshots) mergeBase(ctx context.Context, t *task, to string) (m merge, left []leftover, err error) {
	ours, left, err := s.current(ctx, t)
	base := t.rec.BaseSHA
	if err != nil || to == base || len(marked(left)) > 0 {
		return merge{}, left, err
	}
	at, err := t.committedAt(ctx, to)
	if err != nil {
		return merge{}, nil, err
	}
	mine, err := t.commit(ctx, at, ours, "Work tree before merging "+to, base)
	if err != nil {
		return merge{}, nil, err
	}
	if _, err := t.run(ctx, "update-ref", "refs/retake/before/"+to, mine); err != nil {
		return merge{}, nil, err
	}
	theirs, err := t.commit(ctx, at, to+"^{tree}", "Base branch at "+to, base)
	if err != nil {
		return merge{}, nil, err
	}
	m, err = t.merge(ctx, mine, theirs, labelBase)
	m.Ours, m.To, m.Conflicts = ours, to, append(slices.Clone(left), m.Conflicts...)
	return m, left, err
}

// Join merges the commits that people pushed to one of our branches into the task's work tree, like Sync with
// KeepConflicts. If people have merged the base branch into our branch, Join includes those commits. In the result,
// From is the branch commit that the work already contained, or empty if unknown. To is the branch's current commit,
// which the next delivery needs as DeliverRequest.Onto. If the branch is missing from the record, as after a push by
// another director, Join merges the whole branch. ErrNotThere means that the branch was deleted.
func (w *Workspaces) Join(ctx context.Context, q Request, branch string) (Synced, error) {
	return onFetched(ctx, w, "join "+q.Nonce, q, func(t *task, base string) (Synced, error) {
		r, err := parseRemote(t.op, q.RemoteURL)
		if err != nil {
			return Synced{}, err
		}
		head, err := w.mirrors.head(ctx, q.Repo, branch, r)
		if err != nil {
			return Synced{}, err
		}
		s := Synced{From: t.rec.Tips[branch], To: head}
		held := false
		if s.From != "" {
			if held, err = t.isAncestor(ctx, head, s.From); err != nil {
				return Synced{}, err
			}
		}
		if held && len(t.rec.Conflicts) == 0 {
			return s, nil
		}
		ours, left, err := w.snapshots.current(ctx, t)
		if err != nil {
			return Synced{}, err
		}
		if held || len(marked(left)) > 0 {
			if !held {
				s.To = s.From
			}
			return s.waiting(left), nil
		}
		m, err := t.mergeBranch(ctx, ours, s.From, head, base)
		if err != nil {
			return Synced{}, err
		}
		m.Branch, m.Conflicts = branch, append(left, m.Conflicts...)
		if err := w.trees.apply(ctx, t, m); err != nil {
			return Synced{}, err
		}
		w.log.Info("merged pushed commits", zap.String("task", q.Nonce), zap.String("branch", branch),
			zap.String("from", s.From), zap.String("to", head), zap.Int("conflicts", len(m.Conflicts)))
		s.Merged = true
		return s.waiting(m.Conflicts), nil
	})
}

// mergeBranch merges head, which people pushed on top of tip, with the work tree. Both sides keep their history, so
// that git recognizes people's own merges of the base branch.
func (t *task) mergeBranch(ctx context.Context, ours, tip, head, base string) (merge, error) {
	parents, err := t.parents(ctx, tip, t.rec.BaseSHA)
	if err != nil {
		return merge{}, err
	}
	at, err := t.committedAt(ctx, head)
	if err != nil {
		return merge{}, err
	}
	mine, err := t.commit(ctx, at, ours, "Work tree before joining "+head, parents...)
	if err != nil {
		return merge{}, err
	}
	m, err := t.merge(ctx, mine, head, labelPushed)
	if err != nil {
		return merge{}, err
	}
	m.Ours, m.Tip = ours, head
	m.To, err = t.mergedBase(ctx, t.rec.BaseSHA, head, base)
	return m, err
}
