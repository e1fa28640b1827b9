package director

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/director/effects"
	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/workspace"
)

// catchUp updates a checkout before its next attempt. It merges what people pushed to the branch of the work, and
// the base branch if that is further ahead than the policy allows. If the attempt only validates, a conflict is an
// error, and an agent is asked to resolve it. An agent that was asked finds the conflict in the files listed in
// left.
func (s *session) catchUp(ctx context.Context, c *inforce.Setup, e fsm.Effect,
	r workspace.Request,
) (left []string, err error) {
	if e.Attempt == 1 {
		return nil, nil
	}
	if e.Work != nil && e.Work.Branch != "" {
		joined, err := s.workspace.Join(ctx, r, e.Work.Branch)
		switch {
		case err != nil && !errors.Is(err, workspace.ErrNotThere):
			return nil, err
		case e.Start.Validate && joined.Merged && len(joined.Left) > 0: // no agent would see the conflict
			return nil, &workspace.Error{
				Kind: workspace.Conflict, Op: "join " + e.Nonce, Err: workspace.ErrMergeConflict,
				Detail: "what was pushed to the branch and the work here don't go together: " +
					strings.Join(joined.Left, ", "),
			}
		case !e.Start.Validate && len(joined.Left) > 0:
			return joined.Left, nil
		}
	}
	keep := keepsConflicts(e.Start) && !e.Start.Validate
	if !keep && e.Start.Action != recovery.Revalidate {
		drift, err := s.workspace.Drift(ctx, r)
		if err != nil || c.SyncPolicy().Reason(drift.Commits, drift.Behind) == "" {
			return nil, err
		}
	}
	synced, err := s.workspace.Sync(ctx, r, workspace.SyncOptions{KeepConflicts: keep})
	log := s.log.With(zap.String("issue", string(e.Task)), zap.Int("attempt", e.Attempt))
	switch {
	case errors.Is(err, workspace.ErrCannotMerge):
		log.Warn("the base branch is not merged; the attempt works on the old one", zap.Error(err))
		return nil, nil
	case err == nil && synced.Merged:
		log.Info("merged the base branch", zap.String("from", synced.From), zap.String("to", synced.To),
			zap.Int("conflicts", len(synced.Conflicts)))
	}
	return synced.Left, err
}

// keepsConflicts reports whether this attempt or an earlier one was asked to resolve a conflict, which may
// therefore still be in the files. It also counts a conflict that a person has answered.
func keepsConflicts(o *fsm.StartOrder) bool {
	return slices.ContainsFunc(o.Failures, func(f fsm.Failure) bool { return f.Reason == recovery.GitConflict })
}

// driftEvery is the interval at which running checkouts are compared with their base branch. Each comparison is a
// fetch.
const driftEvery = 10 * time.Minute

// watchDrift warns running workers whose checkout has fallen behind. They continue, and the merge happens before
// the next attempt.
func (s *session) watchDrift(ctx context.Context) error {
	warned := map[string]string{} // worker → base of the last warning
	for {
		select {
		case <-time.After(s.driftEvery):
		case <-ctx.Done():
			return nil
		}
		before := warned
		warned = map[string]string{}
		for _, t := range s.liveTasks(ctx) {
			worker := t.AttemptID()
			warned[worker] = before[worker]
			drift, err := s.workspace.Drift(ctx, s.origin.Checkout(t.Key, t.Nonce))
			if err != nil {
				s.log.Debug("drift unknown", zap.String("issue", string(t.Key)), zap.Error(err))
				continue
			}
			c := s.setup()
			why := c.SyncPolicy().Reason(drift.Commits, drift.Behind)
			if why == "" || warned[worker] == drift.HeadSHA {
				continue
			}
			warned[worker] = drift.HeadSHA
			s.log.Info("worker's checkout has fallen behind", zap.String("issue", string(t.Key)),
				zap.String("worker", worker),
				zap.Int("commits", drift.Commits), zap.Duration("behind", drift.Behind))
			s.sendControl(ctx, worker, wire.SyncRequired{
				Reason: why, MainSHAExpected: drift.HeadSHA, RequiredAction: "merge_main",
				Policy: wire.SyncPolicy{MaxCommitsBehind: c.SyncMain.MaxCommitsBehind},
			})
		}
	}
}

// liveTasks returns copies of the tasks with a live worker.
func (s *session) liveTasks(ctx context.Context) []fsm.Task {
	tasks, _ := loop.Look(ctx, s.owner, func(d *fsm.Driver) (out []fsm.Task) { // on error the session is over
		for _, t := range d.Machine().Tasks() {
			if t.State.Info().Live && !t.UpAt.IsZero() {
				out = append(out, *t)
			}
		}
		return out
	})
	return tasks
}

// writeStates updates .retake/STATE.json in the checkouts of running attempts, for agents that want to read it.
func (s *session) writeStates(ctx context.Context, phase string) {
	for _, t := range s.liveTasks(ctx) {
		doing, _ := t.Activity()
		err := s.workspace.WriteState(t.Nonce, workspace.State{
			UpdatedAt: s.owner.Clock.Now(),
			Director:  workspace.DirectorState{RunID: s.runID, Phase: phase},
			Worker: &workspace.WorkerState{
				WorkerID: t.AttemptID(), AttemptID: t.AttemptID(), Issue: string(t.Key), Attempt: t.Attempt,
				State: t.State.String(), Stage: doing.Stage, LastErrorID: doing.ErrorID,
				BranchName: effects.BranchName(t.Key, t.Attempt),
			},
		})
		if err != nil {
			s.log.Debug("STATE.json not written", zap.String("issue", string(t.Key)), zap.Error(err))
		}
	}
}
