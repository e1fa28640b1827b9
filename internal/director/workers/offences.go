package workers

import (
	"cmp"
	"context"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/recovery"
)

// OffenceStore is the part of the bus that Offences uses.
type OffenceStore interface {
	Offences(ctx context.Context) ([]bus.Offence, error)
	OffenceReported(worker string)
}

// offencesAgain is the pause before offences are read again after a failure, because the bus may be down for a long
// time.
const offencesAgain = 5 * time.Second

// Offences ends the attempts of workers that this or an earlier director cut off from the bus. Each attempt ends with a
// report, like any other attempt.
type Offences struct {
	Bus  OffenceStore
	Ends *Ends
	Wake loop.Wake // signalled for each new offence; the bus stores offences until the director has reported them
	Log  *zap.Logger
}

// Run reports offences until ctx is done.
func (o *Offences) Run(ctx context.Context) error {
	for {
		all, err := o.Bus.Offences(ctx)
		if err != nil && ctx.Err() == nil {
			o.Log.Warn("could not read workers' violations; retrying", zap.Error(err))
		}
		for _, f := range all {
			if o.Ends.End(ctx, f.Worker, bus.OffenceID(f.Worker), recovery.PolicyViolation, recovery.CutOff+f.What) {
				o.Bus.OffenceReported(f.Worker)
			}
		}
		var again <-chan time.Time
		if err != nil {
			again = time.After(offencesAgain)
		}
		select {
		case <-o.Wake:
		case <-again:
		case <-ctx.Done():
			return nil
		}
	}
}

// Ends ends running attempts for reasons that the director itself has determined.
type Ends struct {
	Bus   *bus.Bus
	Owner *loop.Owner
	Log   *zap.Logger
}

// endRetry is the pause before retrying to store a report.
const endRetry = time.Second

// End stores the director's report about a running attempt, which ends the attempt and leads to a question. It
// retries until the report is stored or the attempt is over. It returns false if ctx is done first.
func (d *Ends) End(ctx context.Context, worker, id string, reason recovery.Reason, message string) bool {
	for ctx.Err() == nil {
		of, err := loop.Look(ctx, d.Owner, func(d *fsm.Driver) *wire.WorkerError {
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
		if err = d.Bus.Reports().Put(ctx, worker, EndReport(*of, worker, id, reason, message)); err == nil {
			return true
		}
		d.Log.Warn("could not store the director's report about an attempt; retrying", zap.String("worker", worker),
			zap.String("error_id", id), zap.Error(err))
		select {
		case <-time.After(endRetry):
		case <-ctx.Done():
		}
	}
	return false
}

// EndReport completes the report of an attempt that the director ends.
func EndReport(r wire.WorkerError, worker, id string, reason recovery.Reason, message string) wire.WorkerError {
	r.ErrorID, r.WorkerID, r.AttemptID, r.Stage = id, worker, worker, cmp.Or(r.Stage, wire.StageStart)
	r.ErrorType, r.EscalateToHuman, r.Message = string(reason), true, message
	return r
}
