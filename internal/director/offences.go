package director

import (
	"cmp"
	"context"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/disk"
	"retake/internal/director/lead"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// offended wakes watchOffences. Wakes coalesce, and the bus keeps the offences until they are reported.
func (d *daemon) offended(bus.Offence) {
	select {
	case d.offences <- struct{}{}:
	default:
	}
}

// watchOffences ends the attempts of workers that this or an earlier director cut off. Like every attempt, they end
// with a report.
func (s *session) watchOffences(ctx context.Context) error {
	for {
		all, err := s.bus.Offences(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("offences are not known yet", zap.Error(err))
		}
		for _, o := range all {
			if s.reportOwn(ctx, o.Worker, bus.OffenceID(o.Worker), recovery.PolicyViolation, recovery.CutOff+o.What) {
				s.bus.OffenceReported(o.Worker)
			}
		}
		if err != nil {
			s.offended(bus.Offence{})
		}
		select {
		case <-s.offences:
		case <-ctx.Done():
			return nil
		}
	}
}

// ownRetry is the pause between two tries to store a report by the director.
const ownRetry = time.Second

// reportOwn stores the director's own report of a running attempt. The report ends the attempt, and a person is
// asked for this reason. reportOwn retries until the report is stored or the attempt is over. It returns false if
// ctx ends first.
func (s *session) reportOwn(ctx context.Context, worker, id string, reason recovery.Reason, message string) bool {
	for ctx.Err() == nil {
		of, err := loop.Look(ctx, s.owner, func(d *fsm.Driver) *wire.WorkerError {
			t, current := d.Machine().Worker(worker)
			if !current {
				return nil
			}
			seen, _ := t.Activity()
			return &wire.WorkerError{IssueNumber: t.Key.Number(), Attempt: t.Attempt, Stage: seen.Stage}
		})
		if err != nil {
			return false
		}
		if of == nil {
			return true
		}
		if err = s.bus.Report(ctx, worker, ownReport(*of, worker, id, reason, message)); err == nil {
			return true
		}
		s.log.Warn("a report of the director's own is not stored yet", zap.String("worker", worker),
			zap.String("error_id", id), zap.Error(err))
		select {
		case <-time.After(ownRetry):
		case <-ctx.Done():
		}
	}
	return false
}

// ownReport completes the report of an attempt that the director ends.
func ownReport(r wire.WorkerError, worker, id string, reason recovery.Reason, message string) wire.WorkerError {
	r.ErrorID, r.WorkerID, r.AttemptID, r.Stage = id, worker, worker, cmp.Or(r.Stage, wire.StageStart)
	r.ErrorType, r.EscalateToHuman, r.Message = string(reason), true, message
	return r
}

func (s *session) diskWatch() *lead.DiskWatch {
	return &lead.DiskWatch{
		Of: s.sharedKey(), Watermark: func() float64 { return s.setup().Director.DiskWatermark },
		Use: func() (disk.Use, error) { return s.diskUse(s.sharedDir()) }, Live: s.liveTasks, Used: s.workspace.Used,
		Uploaded: s.bus.Uploaded, Log: s.log,
		Stop: func(ctx context.Context, worker, why string) {
			s.reportOwn(ctx, worker, bus.DiskID(worker), recovery.ScopeViolation, recovery.TooMuch+why)
		},
	}
}

func (s *session) diskGuard() *lead.DiskGuard {
	return &lead.DiskGuard{Disk: s.disk, Owner: s.owner, Reload: s.readAgain, Log: s.log}
}
