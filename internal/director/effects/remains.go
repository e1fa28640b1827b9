package effects

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"retake/internal/container"
	"retake/internal/director/failure"
	"retake/internal/director/reports"
	"retake/internal/fsm"
	"retake/internal/workspace"
)

// Remains removes the leftovers of finished claims, and containers without a task.
type Remains struct {
	Runtime     container.Runtime
	Workspace   *workspace.Workspaces
	Travel      *Checkouts
	Credentials *Credentials
	Reports     *reports.Cache
	Texts       *IssueTexts
	Log         *zap.Logger
}

// Remove stops and removes a container of this fleet that belongs to no task.
func (r *Remains) Remove(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	_, err := r.Runtime.Stop(ctx, e.Worker, 0, nil)
	if err == nil {
		r.Log.Info("removed a container without a task", zap.String("worker", e.Worker))
	}
	r.Credentials.Revoke(ctx, e.Worker)
	return failure.Or(fsm.EffectEnded{}, err)
}

// forgetFor limits how long Forget keeps trying to remove a checkout, for example while a leftover process is still
// writing to it. It is short, because the issue's next claim waits for Forget. The next start of the director removes
// the rest.
const forgetFor = 30 * time.Second

// Forget removes the leftovers of a finished claim.
func (r *Remains) Forget(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	r.Credentials.Revoke(ctx, e.Worker)
	r.Reports.Drop(e.Worker)
	r.Texts.Forget(e.Task)
	return failure.Or(fsm.EffectEnded{}, failure.Retry(ctx, failure.Pauses(time.Second, 8*time.Second), forgetFor,
		func() error { return errors.Join(r.Travel.Mounted(ctx, e.Nonce), r.Workspace.Remove(ctx, e.Nonce)) },
		func(err error, wait time.Duration) {
			r.Log.Info("could not remove the checkout; retrying", zap.String("issue", string(e.Task)),
				zap.Duration("in", wait), zap.Error(err))
		}))
}
