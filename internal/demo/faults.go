package demo

import (
	"context"
	"path/filepath"
	"time"

	"retake/internal/bus/wire"
)

// inCheckouts reports whether a file exists in one of the checkouts. folders is the pattern of their directories.
func inCheckouts(folders, file string) (bool, error) {
	found, err := filepath.Glob(filepath.Join(folders, filepath.FromSlash(file)))
	return len(found) > 0, err
}

// injectFault kills or freezes a scenario's worker while it is working, if the scenario calls for it.
func (r *run) injectFault(ctx context.Context, a *activeScenario, w wire.SnapshotWorker) error {
	if a.Fault == "" || !a.faultAt.IsZero() || w.Attempt != 1 || w.Stage != wire.StageCode {
		return nil
	}
	if there, err := r.world.host.keeps(r.world, a.Half); err != nil || !there {
		return err
	}
	r.printFor(a.key(), "half of the work is in the checkout: %s", a.Fault)
	at, inject := time.Now(), r.world.host.Pause
	if a.Fault == faultKill {
		inject = r.world.host.Kill
	}
	if err := inject(ctx, w.WorkerID); err != nil {
		r.printFor(a.key(), "%s: %v; trying again", w.WorkerID, err) // runLimit limits the retries
		return nil
	}
	a.faultAt = at
	return nil
}
