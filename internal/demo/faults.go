package demo

import (
	"context"
	"path/filepath"
	"time"

	"retake/internal/bus/wire"
)

// injectFault kills or freezes a scenario's worker, if the scenario is about that, once it is in the middle of its work.
func (r *run) injectFault(ctx context.Context, a *activeScenario, w wire.SnapshotWorker) error {
	if a.Fault == "" || !a.faultAt.IsZero() || w.Attempt != 1 || w.Stage != wire.StageCode {
		return nil
	}
	half, err := filepath.Glob(filepath.Join(r.testbed.data(), "tasks", "*", "checkout", filepath.FromSlash(a.Half)))
	if err != nil || len(half) == 0 {
		return err
	}
	r.printFor(a.key(), "half of its work is in the checkout: %s", a.Fault)
	at := time.Now()
	if err := r.testbed.host.inject(ctx, w.WorkerID, a.Fault); err != nil {
		r.printFor(a.key(), "%v; trying again", err) // runLimit ends it
		return nil
	}
	a.faultAt = at
	return nil
}
