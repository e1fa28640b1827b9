package effects

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/disk"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/workspace"
)

// Disk tells the failures of the host's disk from those of a task.
type Disk struct {
	State     func() disk.State                     // of the data directory's disk
	Use       func(folder string) (disk.Use, error) // of any disk
	Workspace *workspace.Workspaces
	Clock     *loop.Clock
	Log       *zap.Logger
}

// diskWait is the pause before something is tried again that the host's disk has kept from working.
const diskWait = 10 * time.Second

// Await makes what the host fails with wait for the disk of the data directory: while nothing can be written
// there, whatever fails may be for that, and is tried again until the disk is well, without a charge. If that
// disk is well, a full one is another, such as the engine's, and a start is tried again for some time before it
// is a failed attempt; a fault of a file is the task's own.
func (d *Disk) Await(run loop.Executor) loop.Executor {
	return func(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
		out := run(ctx, e)
		f := out.Failure
		if f == nil || f.Resource != recovery.Host {
			return out
		}
		now, full := d.State(), f.Reason == recovery.DiskFull
		switch {
		case now.Unusable() != nil || full && now.Note != "":
			f.Transient, f.Until = true, d.Clock.Now().Add(diskWait)
		case full:
			f.Doubtful = e.Kind == fsm.DoStart
		case f.Reason == recovery.CorruptState:
			f.Doubtful, f.Resource = e.Kind == fsm.DoStart, ""
		}
		return out
	}
}

// nearlyNothing is the part of a quota, in percent, of which it is used up when no more than that is left: what
// did not fit may have been large.
const nearlyNothing = 5

// QuotaUsedUp says, for people, that a task has used up what its own checkout may have; empty: it has not, or
// has no quota. For want of room it fails alone then, whatever room the host has.
func (d *Disk) QuotaUsedUp(nonce string) (cause string) {
	dir := d.Workspace.Quota(nonce)
	if dir == "" {
		return ""
	}
	u, err := d.Use(dir)
	if err != nil {
		d.Log.Warn("a quota cannot be looked at", zap.String("task", nonce), zap.Error(err))
		return ""
	}
	for kind, what := range [...]string{"bytes", "files"} {
		if k := u[kind]; k.Used+k.Free > 0 && 100*k.Free <= nearlyNothing*(k.Used+k.Free) {
			return fmt.Sprintf("%sits quota is used up: %d of %d %s (checkout.quota)", recovery.TooMuch, k.Used, k.Used+
				k.Free, what)
		}
	}
	return ""
}

// WithinQuota tells a task's own full quota from a full disk of the host.
func (d *Disk) WithinQuota(run loop.Executor) loop.Executor {
	return func(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
		out := run(ctx, e)
		if f := out.Failure; f != nil && f.Reason == recovery.DiskFull {
			if cause := d.QuotaUsedUp(e.Nonce); cause != "" {
				f.Reason, f.Text, f.Resource, f.Transient, f.Until = recovery.ScopeViolation, cause, "", false,
					time.Time{}
			}
		}
		return out
	}
}
