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

// Disk distinguishes failures of the host's disk from failures of a task.
type Disk struct {
	State     func() disk.State                     // state of the data directory's disk
	Use       func(folder string) (disk.Use, error) // returns the used and free space of a directory's disk
	Workspace *workspace.Workspaces
	Clock     *loop.Clock
	Log       *zap.Logger
}

// diskWait is the pause before the director retries an effect that failed because of the host's disk.
const diskWait = 10 * time.Second

// Await returns an executor that tells the machine how to retry an effect that failed because of the host. While the
// data directory is not writable, the disk could be the cause of any such failure. The machine then retries after
// diskWait and does not count the failure. If another disk is full, for example the container engine's disk, the
// machine retries a start for some time before it counts the attempt as failed. A damaged file counts against the task.
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

// nearlyNothing is the percentage of free quota at or below which the quota counts as used up. It is not 0, because
// writing a large file can fail while some space is still free.
const nearlyNothing = 5

// QuotaUsedUp returns a message if a task has used up its checkout's quota, and "" otherwise. A used-up quota affects
// only that task, because the host's disk may have free space.
func (d *Disk) QuotaUsedUp(nonce string) (cause string) {
	dir := d.Workspace.Quota(nonce)
	if dir == "" {
		return ""
	}
	u, err := d.Use(dir)
	if err != nil {
		d.Log.Warn("could not read quota", zap.String("task", nonce), zap.Error(err))
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

// WithinQuota returns an executor that blames a full disk on the task's quota instead of on the host, if that quota is
// used up.
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
