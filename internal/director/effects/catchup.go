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

// catchUp updates a checkout before every attempt except the first. It merges the commits that people pushed to the
// work's branch, and the base branch if that is further ahead than the policy allows. left lists the files in which a
// merge left conflicts for the agent. An attempt that only validates has no agent, so a conflict there is an error.
func (s *Starter) catchUp(ctx context.Context, e *attempt, r workspace.Request) (left []string, err error) {
	if e.Attempt == 1 {
		return nil, nil
	}
	if e.Work != nil && e.Work.Branch != "" {
		joined, err := s.Workspace.Join(ctx, r, e.Work.Branch)
		switch {
		case err != nil && !errors.Is(err, workspace.ErrNotThere):
			return nil, err
		case e.Start.Validate && joined.Merged && len(joined.Left) > 0: // this attempt has no agent to resolve it
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
		log.Warn("could not merge the base branch; the attempt uses the old base", zap.Error(err))
		return nil, nil
	case err == nil && synced.Merged:
		log.Info("merged the base branch", zap.String("from", synced.From), zap.String("to", synced.To),
			zap.Int("conflicts", len(synced.Conflicts)))
	}
	return synced.Left, err
}

// keepsConflicts reports whether an earlier attempt failed because of a merge conflict. The next merge then leaves its
// conflicts in the files, so that the agent can resolve them. A person's answer in between does not change that.
func keepsConflicts(o *fsm.StartOrder) bool {
	return slices.ContainsFunc(o.Failures, func(f fsm.Failure) bool { return f.Reason == recovery.GitConflict })
}
