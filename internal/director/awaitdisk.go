package director

import (
	"context"
	"time"

	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// diskWait is the pause before something is tried again that the host's disk has kept from working.
const diskWait = 10 * time.Second

// awaitDisk has what the host fails with wait for the disk of the data directory: while nothing can be written
// there, whatever fails may be for that, and is tried again until the disk is well, without a charge. If that
// disk is well, a full one is another, such as the engine's, and a start is tried again for some time before it
// is a failed attempt; a fault of a file is the task's own.
func (s *session) awaitDisk(run loop.Executor) loop.Executor {
	return func(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
		out := run(ctx, e)
		f := out.Failure
		if f == nil || f.Resource != recovery.Host {
			return out
		}
		disk, full := s.disk.Now(), f.Reason == recovery.DiskFull
		switch {
		case disk.Unusable() != nil || full && disk.Note != "":
			f.Transient, f.Until = true, s.owner.Clock.Now().Add(diskWait)
		case full:
			f.Doubtful = e.Kind == fsm.DoStart
		case f.Reason == recovery.CorruptState:
			f.Doubtful, f.Resource = e.Kind == fsm.DoStart, ""
		}
		return out
	}
}
