package lead

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/disk"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

const (
	guardEvery = time.Second
	// A failed disk check holds back new work for holdFor.
	holdFor = time.Minute
)

// DiskGuard holds back new work while the disk of the data directory is full or failing.
type DiskGuard struct {
	Disk   *disk.Guard
	Owner  *loop.Owner
	Reload func(error) // ends the session, and reopens the bus
	Log    *zap.Logger
}

// Run checks the disk until ctx is done. When a failed disk becomes writable again, Run ends the session, because a
// bus server that once failed to write refuses all writes until it is reopened.
func (g *DiskGuard) Run(ctx context.Context) error {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	var probed, held time.Time
	last, closed := disk.State{}, true // an earlier session may have closed recovery.Host
	for {
		write := last.Problem() != "" || time.Since(probed) >= disk.ProbeEvery
		now := g.Disk.Ask(ctx, write, disk.Slow).After(last)
		if ctx.Err() != nil {
			return nil
		}
		if now.Wrote {
			probed = time.Now()
		}
		what := now.Problem()
		g.Disk.Keep(now)
		g.logChange(last, now)
		if last.Failed != nil && now.Failed == nil {
			g.Reload(errors.New("the disk holding director.data_dir is writable again"))
		}
		switch {
		case what != "" && time.Since(held) >= holdFor/2:
			held, closed = time.Now(), true
			g.Owner.Send(ctx, fsm.CooldownReported{
				Resource: recovery.Host, Until: g.Owner.Clock.Now().Add(holdFor), Why: what,
			}, nil)
		case what == "" && closed:
			held, closed = time.Time{}, false
			g.Owner.Send(ctx, fsm.LiftCommanded{Resource: recovery.Host}, nil)
		}
		last = now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (g *DiskGuard) logChange(last, now disk.State) {
	switch what := now.Problem(); {
	case what != "" && last.Problem() == "":
		g.Log.Warn("no new work starts: "+what, zap.Bool("writable", now.Unusable() == nil))
	case what == "" && last.Problem() != "":
		g.Log.Info("the disk holding director.data_dir is usable again")
	}
}
