package demo

import (
	"context"
	"path/filepath"
	"time"

	"retake/internal/bus/wire"
)

// inCheckouts reports whether a file is in a checkout on this machine, as the pattern of their directories has them.
func inCheckouts(folders, file string) (bool, error) {
	found, err := filepath.Glob(filepath.Join(folders, filepath.FromSlash(file)))
	return len(found) > 0, err
}

// injectFault kills or freezes a scenario's worker, if the scenario is about that, once it is in the middle of
// its work.
func (r *run) injectFault(ctx context.Context, a *activeScenario, w wire.SnapshotWorker) error {
	if a.Fault == "" || !a.faultAt.IsZero() || w.Attempt != 1 || w.Stage != wire.StageCode {
		return nil
	}
	if there, err := r.world.host.keeps(r.world, a.Half); err != nil || !there {
		return err
	}
	r.printFor(a.key(), "half of its work is in the checkout: %s", a.Fault)
	at, inject := time.Now(), r.world.host.Pause
	if a.Fault == faultKill {
		inject = r.world.host.Kill
	}
	if err := inject(ctx, w.WorkerID); err != nil {
		r.printFor(a.key(), "%s: %v; trying again", w.WorkerID, err) // runLimit ends it
		return nil
	}
	a.faultAt = at
	return nil
}
