package demo

import (
	"context"
	"path/filepath"
	"time"

	"retake/internal/bus/wire"
)

// hurt does what a scenario wants done to its worker, once that is seen in the middle of its work.
func (p *play) hurt(ctx context.Context, a *act, w wire.SnapshotWorker) error {
	if a.Harm == "" || !a.hurt.IsZero() || w.Attempt != 1 || w.Stage != wire.StageCode {
		return nil
	}
	half, err := filepath.Glob(filepath.Join(p.site.data(), "tasks", "*", "checkout", filepath.FromSlash(a.Half)))
	if err != nil || len(half) == 0 {
		return err
	}
	p.about(a.key(), "half of its work is in the checkout: %s", a.Harm)
	at := time.Now()
	if err := p.site.host.harm(ctx, w.WorkerID, a.Harm); err != nil {
		p.about(a.key(), "%v; trying again", err) // runLimit ends it
		return nil
	}
	a.hurt = at
	return nil
}
