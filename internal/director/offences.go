package director

import (
	"cmp"
	"context"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// offended passes on that a worker was cut off. It waits for a session that takes it, or for the end.
func (d *daemon) offended(o bus.Offence) {
	select {
	case d.offences <- o:
	case <-d.closing:
	}
}

// watchOffences ends the attempts of workers that were cut off: by a report, as every attempt ends.
func (s *session) watchOffences(ctx context.Context) error {
	for {
		select {
		case o := <-s.offences:
			s.reportOffence(ctx, o)
		case <-ctx.Done():
			return nil
		}
	}
}

// offenceRetry is the pause between two tries to store a report of an offence.
const offenceRetry = time.Second

// reportOffence stores the director's own report, until it is stored or ctx ends. Then the worker is only silent, which ends its
// attempt as well.
func (s *session) reportOffence(ctx context.Context, o bus.Offence) {
	of, err := look(ctx, s.owner, func(d *fsm.Driver) *wire.WorkerError {
		t, current := d.Machine().Worker(o.Worker)
		if !current {
			return nil
		}
		seen, _ := t.Activity()
		return &wire.WorkerError{IssueNumber: t.Key.Number(), Attempt: t.Attempt, Stage: seen.Stage}
	})
	if err != nil || of == nil {
		return
	}
	report := offenceReport(*of, o)
	for err = s.bus.Report(ctx, o.Worker, report); err != nil && ctx.Err() == nil; err = s.bus.Report(ctx, o.Worker, report) {
		s.log.Warn("the report of an offence is not stored yet", zap.String("worker", o.Worker), zap.Error(err))
		select {
		case <-time.After(offenceRetry):
		case <-ctx.Done():
		}
	}
}

// offenceReport fills in the report of an attempt whose worker was cut off.
func offenceReport(r wire.WorkerError, o bus.Offence) wire.WorkerError {
	r.ErrorID, r.WorkerID, r.AttemptID, r.Stage = bus.OffenceID(o.Worker), o.Worker, o.Worker, cmp.Or(r.Stage, wire.StageStart)
	r.ErrorType, r.EscalateToHuman, r.Message = string(recovery.PolicyViolation), true, recovery.CutOff+o.What
	return r
}
