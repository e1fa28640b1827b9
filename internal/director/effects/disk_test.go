package effects

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"retake/internal/container"
	"retake/internal/director/disk"
	"retake/internal/director/failure"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/workspace"
)

// TestTasksWaitForTheDisk checks that a full disk is a host failure for every reporter, while a failing disk may have
// failed for one file. While the disk of the data directory cannot be written, every effect is retried without a
// charge, even a start. If that disk is healthy, every wait is bounded.
func TestTasksWaitForTheDisk(t *testing.T) {
	full := []error{
		&workspace.Error{Kind: workspace.Transient, Err: workspace.ErrDiskFull},
		fmt.Errorf("start: %w", &container.Error{Kind: container.ErrDisk, Transient: true}),
		&os.PathError{Op: "write", Path: "/data/x", Err: syscall.ENOSPC},
	}
	fails := []error{
		&workspace.Error{Kind: workspace.Transient, Err: workspace.ErrDiskFails},
		&os.PathError{Op: "open", Path: "/data/x", Err: syscall.EROFS},
		&os.PathError{Op: "read", Path: "/data/x", Err: syscall.EIO},
	}
	engine := &container.Error{
		Kind: container.ErrDaemon, Transient: true,
		Cause: errors.New("mkdir /x: read-only file system"),
	}
	elsewhere := &workspace.Error{Kind: workspace.Transient, Err: errors.New("connection reset")}
	var now disk.State
	d := &Disk{State: func() disk.State { return now }, Clock: loop.NewClock(time.Now())}
	for _, row := range []struct {
		errs     []error
		disk     disk.State
		reason   recovery.Reason
		resource string
		waits    bool // until the disk is healthy
		doubtful bool // the machine retries a start a few times
	}{
		{full, disk.State{}, recovery.DiskFull, recovery.Host, false, true},
		{full, disk.State{Note: "nearly full"}, recovery.DiskFull, recovery.Host, true, false},
		{full, disk.State{Failed: syscall.ENOSPC}, recovery.DiskFull, recovery.Host, true, false},
		{fails, disk.State{}, recovery.CorruptState, "", false, true},
		{fails, disk.State{Note: "nearly full"}, recovery.CorruptState, "", false, true},
		{fails, disk.State{Failed: syscall.EROFS}, recovery.CorruptState, recovery.Host, true, false},
		{fails, disk.State{Late: errors.New("has not answered")}, recovery.CorruptState, recovery.Host, true, false},
		{[]error{engine}, disk.State{}, recovery.DockerDaemon, recovery.Host, false, false},
		{[]error{engine}, disk.State{Failed: syscall.EIO}, recovery.DockerDaemon, recovery.Host, true, false},
		{
			[]error{elsewhere},
			disk.State{Failed: syscall.EIO},
			recovery.NetworkTransient, recovery.GitHubGit, false,
			false,
		},
	} {
		now = row.disk
		for _, err := range row.errs {
			for _, kind := range []fsm.EffectKind{fsm.DoStart, fsm.DoStop} {
				f := d.Await(func(context.Context, fsm.Effect) fsm.EffectEnded { return failure.Ended(err) })(
					t.Context(),
					fsm.Effect{Kind: kind}).Failure
				if f.Reason != row.reason || f.Resource != row.resource || !f.Transient ||
					f.Until.After(time.Now()) != row.waits || f.Doubtful != (row.doubtful && kind == fsm.DoStart) {
					t.Errorf("%s, %v, while the disk is %+v: %+v; want %+v", kind, err, row.disk, f, row)
				}
			}
		}
	}
}
