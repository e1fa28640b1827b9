package effects

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.uber.org/zap"

	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/workspace"
)

// catchUp updates a checkout before its next attempt. It merges what people pushed to the work's branch, and also the
// base branch if that is further ahead than the policy allows. In an attempt that only validates, a conflict is an
// error, and the next attempt gets an agent. left lists the files with conflicts for that agent.
func (s *Starter) catchUp(ctx context.Context, e *attempt, r workspace.Request) (left []string, err error) {
	if e.Attempt == 1 {
		return nil, nil
	}
	if e.Work != nil && e.Work.Branch != "" {
		joined, err := s.Workspace.Join(ctx, r, e.Work.Branch)
		switch {
		case err != nil && !errors.Is(err, workspace.ErrNotThere):
			return nil, err
		case e.Start.Validate && joined.Merged && len(joined.Left) > 0: // no agent could resolve it
			return nil, &workspace.Error{
				Kind: workspace.Conflict, Op: "join " + e.Nonce, Err: workspace.ErrMergeConflict,
				Detail: "the commits on the branch conflict with this work: " +
					strings.Join(joined.Left, ", "),
			}
		case !e.Start.Validate && len(joined.Left) > 0:
			return joined.Left, nil
		}
	}
	keep := keepsConflicts(e.Start) && !e.Start.Validate
	if !keep && e.Start.Action != recovery.Revalidate {
		drift, err := s.Workspace.Drift(ctx, r)
		if err != nil || e.in.SyncPolicy().Reason(drift.Commits, drift.Behind) == "" {
			return nil, err
		}
	}
	synced, err := s.Workspace.Sync(ctx, r, workspace.SyncOptions{KeepConflicts: keep})
	log := s.Log.With(zap.String("issue", string(e.Task)), zap.Int("attempt", e.Attempt))
	switch {
	case errors.Is(err, workspace.ErrCannotMerge):
		log.Warn("base branch not merged; the attempt uses the old base", zap.Error(err))
		return nil, nil
	case err == nil && synced.Merged:
		log.Info("merged the base branch", zap.String("from", synced.From), zap.String("to", synced.To),
			zap.Int("conflicts", len(synced.Conflicts)))
	}
	return synced.Left, err
}

// keepsConflicts reports whether the files may still hold a conflict from a merge before this or an earlier attempt,
// even if a person has answered since.
func keepsConflicts(o *fsm.StartOrder) bool {
	return slices.ContainsFunc(o.Failures, func(f fsm.Failure) bool { return f.Reason == recovery.GitConflict })
}
