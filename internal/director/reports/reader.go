package reports

import (
	"context"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/inforce"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/secrets/redact"
)

// Reader turns stored reports into events. It adds details that only the director knows, and classifies the evidence.
type Reader struct {
	Setup   func() *inforce.Setup
	Secrets func() *redact.Redactor
	Cache   *Cache
	Send    func(ctx context.Context, body fsm.EventBody, ack func())
	// HeldBack returns why the bus refused an attempt's checkout, or "".
	HeldBack func(ctx context.Context, worker string) string
	// QuotaUsedUp names the quota that a task has used up, or returns "".
	QuotaUsedUp func(nonce string) string
	Log         *zap.Logger
}

// Received prepares a report, and may run concurrently. The returned function caches the report and sends it to the
// machine. It must be called in stream order.
func (d *Reader) Received(ctx context.Context, r bus.Report) (take func()) {
	r = Redacted(r, d.Secrets())
	report := d.Read(ctx, r)
	return func() {
		d.Cache.add(r)
		if body, ok := r.Body.(*wire.WorkerError); ok && !r.Signed {
			d.Log.Info(PersonsWord, zap.String("worker", r.Worker), zap.String("stage", body.Stage),
				zap.String("reason", body.ErrorType), zap.String("error_id", body.ErrorID))
		}
		d.Send(ctx, fsm.ReportReceived{Worker: r.Worker, Report: report}, func() {
			if err := r.Ack(); err != nil {
				d.Log.Debug("could not acknowledge report; it will be redelivered",
					zap.String("worker", r.Worker), zap.Error(err))
			}
		})
	}
}

// Read translates a redacted report and classifies its evidence.
func (d *Reader) Read(ctx context.Context, r bus.Report) fsm.Report {
	out := Translate(r)
	if out.OK {
		return out
	}
	by := d.Setup().Classifier
	found := by.Classify(out.Evidence)
	if cause := d.tooMuch(ctx, r, found); cause != "" {
		out.Evidence.Known, out.Evidence.KnownCause = recovery.ScopeViolation, cause
		found = by.Classify(out.Evidence)
	}
	out.Classified = &fsm.Classified{By: by, Finding: found}
	return out
}

// tooMuch returns a message if a failed attempt exceeded a limit on its checkout, or else "".
func (d *Reader) tooMuch(ctx context.Context, r bus.Report, found recovery.Finding) (cause string) {
	if body, ok := r.Body.(*wire.WorkerError); ok && !r.Own && body.IsFinal() && d.Setup().Workspace.Travels() {
		cause = d.HeldBack(ctx, r.Worker)
	}
	if nonce, _, _ := fsm.ParseAttemptID(r.Worker); cause == "" && found.Reason == recovery.DiskFull {
		cause = d.QuotaUsedUp(nonce)
	}
	return cause
}

// Redacted returns a report without secrets. Workers redact their reports themselves, but people who report for them
// do not.
func Redacted(r bus.Report, by *redact.Redactor) bus.Report {
	switch body := r.Body.(type) {
	case *wire.WorkerError:
		clean := *body
		mapStrings(&clean, by.Text)
		clean.ErrorID, clean.WorkerID, clean.AttemptID = body.ErrorID, body.WorkerID, body.AttemptID
		r.Body = &clean
	case *wire.WorkerResult:
		clean := *body
		mapStrings(&clean, by.Text)
		clean.ResultID, clean.AttemptID = body.ResultID, body.AttemptID
		r.Body = &clean
	}
	return r
}
