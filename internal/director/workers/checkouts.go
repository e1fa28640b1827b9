package workers

import (
	"context"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/director/inforce"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/workspace"
)

// DriftEvery is the interval at which running checkouts are compared with their base branch. Each comparison requires a
// fetch.
const DriftEvery = 10 * time.Minute

// Checkouts compares the checkouts of running attempts with the base branch, and writes the director's state into them.
type Checkouts struct {
	Owner     *loop.Owner
	Workspace *workspace.Workspaces
	Checkout  func(k fsm.IssueKey, nonce string) workspace.Request // names a claim's checkout
	Setup     func() *inforce.Setup
	Control   *Control
	Every     time.Duration // between two comparisons
	RunID     string
	Log       *zap.Logger
}

// WatchDrift warns workers when their checkouts have fallen behind the base branch, until ctx is done. The workers
// continue, and the next attempt begins with a merge.
func (c *Checkouts) WatchDrift(ctx context.Context) error {
	warned := map[string]string{} // by worker: the base of the last warning
	for {
		select {
		case <-time.After(c.Every):
		case <-ctx.Done():
			return nil
		}
		before := warned
		warned = map[string]string{}
		for _, t := range Live(ctx, c.Owner) {
			warned[t.AttemptID()] = c.warn(ctx, t, before[t.AttemptID()])
		}
	}
}

// warn warns the worker of a task that its checkout has fallen behind its base, once for each base. It returns the base
// of the last warning.
func (c *Checkouts) warn(ctx context.Context, t fsm.Task, warned string) string {
	drift, err := c.Workspace.Drift(ctx, c.Checkout(t.Key, t.Nonce))
	if err != nil {
		c.Log.Debug("could not determine how far a checkout is behind", zap.String("issue", string(t.Key)),
			zap.Error(err))
		return warned
	}
	in := c.Setup()
	why := in.SyncPolicy().Reason(drift.Commits, drift.Behind)
	if why == "" || warned == drift.HeadSHA {
		return warned
	}
	c.Log.Info("worker's checkout is behind the base branch", zap.String("issue", string(t.Key)),
		zap.String("worker", t.AttemptID()), zap.Int("commits", drift.Commits), zap.Duration("behind", drift.Behind))
	c.Control.Send(ctx, t.AttemptID(), wire.SyncRequired{
		Reason: why, MainSHAExpected: drift.HeadSHA, RequiredAction: "merge_main",
		Policy: wire.SyncPolicy{MaxCommitsBehind: in.SyncMain.MaxCommitsBehind},
	})
	return drift.HeadSHA
}

// WriteStates updates .retake/STATE.json in the checkouts of running attempts, for agents that want to read it.
func (c *Checkouts) WriteStates(ctx context.Context, phase string) {
	for _, t := range Live(ctx, c.Owner) {
		doing, _ := t.Activity()
		err := c.Workspace.WriteState(t.Nonce, workspace.State{
			UpdatedAt: c.Owner.Clock.Now(),
			Director:  workspace.DirectorState{RunID: c.RunID, Phase: phase},
			Worker: &workspace.WorkerState{
				WorkerID: t.AttemptID(), AttemptID: t.AttemptID(), Issue: string(t.Key), Attempt: t.Attempt,
				State: t.State.String(), Stage: doing.Stage, LastErrorID: doing.ErrorID,
				BranchName: fsm.BranchName(t.Key, t.Attempt),
			},
		})
		if err != nil {
			c.Log.Debug("could not write STATE.json", zap.String("issue", string(t.Key)), zap.Error(err))
		}
	}
}
