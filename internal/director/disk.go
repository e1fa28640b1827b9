package director

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docker/go-units"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

const (
	diskEvery = time.Second
	// diskStep is by how many percent the disk must have filled further before another attempt is stopped: what the last one wrote stays.
	diskStep = 0.5
	// diskLeast is what a checkout must use of the disk, or a hundredth of that, to be worth stopping.
	diskLeast = 64 << 20
	// diskLook bounds a look at the checkouts; diskPause is how long one without a result holds.
	diskLook  = 30 * time.Second
	diskPause = 10 * time.Second
)

// diskUse is how full a file system is, as df says it to those who are not root.
type diskUse struct {
	percent float64 // of the bytes or of the files, whichever is more
	bytes   int64   // of all
}

func useOf(dir string) (u diskUse, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return u, err
	}
	share := func(used, free uint64) float64 { return 100 * float64(used) / max(1, float64(used+free)) }
	u.percent = share(st.Blocks-st.Bfree, st.Bavail)
	if st.Files > 0 { // some file systems do not count
		u.percent = max(u.percent, share(st.Files-st.Ffree, st.Ffree))
	}
	u.bytes = int64(st.Blocks) * st.Bsize //nolint:gosec // no disk is that large
	return u, nil
}

// diskWatch decides when the attempt that uses the most has to go.
type diskWatch struct {
	watermark float64 // in percent
	stoppedAt float64 // percent, when one was stopped; 0: none since there was room
}

// full reports whether an attempt is to be stopped.
func (w *diskWatch) full(u diskUse) bool {
	if u.percent < w.watermark {
		w.stoppedAt = 0
		return false
	}
	return w.stoppedAt == 0 || u.percent >= w.stoppedAt+diskStep
}

// worthIt reports whether stopping a checkout's attempt helps.
func (u diskUse) worthIt(used int64) bool { return used >= min(diskLeast, u.bytes/100) }

// watchDisk keeps the disk of the data directory from being filled by an attempt: above the watermark the one whose checkout uses the most is
// stopped, and a person is asked. The rest of the disk is the journal's.
func (s *session) watchDisk(ctx context.Context) error {
	w := diskWatch{watermark: s.config.Director.DiskWatermark}
	if w.watermark == 0 {
		return nil
	}
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		use, err := useOf(s.config.Director.DataDir)
		if err != nil || !w.full(use) {
			continue
		}
		t, used := s.largest(ctx)
		if !use.worthIt(used) {
			s.log.Warn("the disk of director.data_dir is nearly full, and no running attempt is to blame: make room", zap.Float64("percent", use.percent))
			select { // to look costs time, too
			case <-time.After(diskPause):
			case <-ctx.Done():
			}
			continue
		}
		what := fmt.Sprintf("its checkout uses %s of the disk of director.data_dir, the most of all, and that is %.0f %% full (director.disk_watermark = %v)",
			units.BytesSize(float64(used)), use.percent, w.watermark)
		s.log.Warn("an attempt is stopped for the disk", zap.String("issue", string(t.Key)), zap.String("worker", t.AttemptID()), zap.String("reason", what))
		if err := s.reportFor(ctx, t.AttemptID(), diskID(t.AttemptID()), recovery.ScopeViolation, recovery.TooMuch+what); err != nil {
			s.log.Warn("the report is not stored yet", zap.String("worker", t.AttemptID()), zap.Error(err))
			continue
		}
		w.stoppedAt = use.percent
	}
}

// largest is the running task whose checkout uses the most of the disk, in bytes.
func (s *session) largest(ctx context.Context) (most fsm.Task, used int64) {
	ctx, cancel := context.WithTimeout(ctx, diskLook)
	defer cancel()
	for _, t := range s.liveTasks(ctx) {
		if n, err := s.workspace.Used(ctx, t.Nonce); err == nil && n > used {
			most, used = t, n
		}
	}
	return most, used
}

// diskID marks the director's report of an attempt that was stopped for the disk.
func diskID(worker string) string { return worker + "/disk" }

// errNotRunning: there is no such attempt any more.
var errNotRunning = errors.New("director: not a running attempt")

// reportFor stores the director's own report about a running attempt, which ends it: a person is asked for this reason.
func (s *session) reportFor(ctx context.Context, worker, id string, reason recovery.Reason, message string) error {
	of, err := look(ctx, s.owner, func(d *fsm.Driver) *wire.WorkerError {
		t, current := d.Machine().Worker(worker)
		if !current {
			return nil
		}
		seen, _ := t.Activity()
		return &wire.WorkerError{IssueNumber: t.Key.Number(), Attempt: t.Attempt, Stage: cmp.Or(seen.Stage, wire.StageStart)}
	})
	if err != nil || of == nil {
		return errors.Join(err, errNotRunning)
	}
	of.ErrorID, of.WorkerID, of.AttemptID = id, worker, worker
	of.ErrorType, of.EscalateToHuman, of.Message = string(reason), true, message
	return s.bus.Report(ctx, worker, *of)
}
