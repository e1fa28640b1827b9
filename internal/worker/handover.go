package worker

import (
	"context"

	"retake/internal/bus/wire"

	"go.uber.org/zap"
)

// runAttempt runs the stages. If the checkout travels over the bus, runAttempt first fetches it, and sends checkpoints
// while the stages run.
func (w *worker) runAttempt(ctx context.Context) *failure {
	if w.checkouts == nil {
		return w.attempt.runStages(ctx)
	}
	w.attempt.notify(step{stage: wire.StageStart, text: "fetching the checkout"})
	if err := w.checkouts.fetch(ctx); err != nil {
		f := &failure{kind: failedStart, stage: wire.StageStart, number: 1, err: err}
		if ctx.Err() != nil {
			f.kind = failedStopped
		}
		return f
	}
	stop := w.checkouts.start(ctx)
	defer stop()
	return w.attempt.runStages(ctx)
}

// send queues the report for the session.
func (w *worker) send() (ExitCode, bool) {
	w.outbox <- w.report
	w.report = nil
	if w.end != nil {
		w.outcome = w.end.code
	}
	return 0, false
}

// save starts sending the last checkpoint. Call it after the last process of the stages has ended. The checkpoint
// includes the report in the spool. save does not wait: the result arrives on w.saved. After an external stop, the time
// is limited.
func (w *worker) save() {
	ctx, cancel := w.work, func() {}
	if w.end != nil {
		ctx, cancel = context.WithTimeout(ctx, max(w.end.ackTimeout, w.end.grace)*3/4)
	}
	w.position.set(step{stage: w.position.progress().Stage, text: "handing over the work"})
	w.stages.Go(func() {
		defer cancel()
		var err error
		if fault := catchPanic(func() { err = w.checkouts.last(ctx) }); fault != nil {
			err = fault
		}
		w.saved <- err
	})
}

// onSaved continues after the last checkpoint. If the checkpoint failed, a successful attempt counts as failed, because
// its work did not reach the director.
func (w *worker) onSaved(err error) (ExitCode, bool) {
	if err != nil {
		w.log.Error("last checkpoint failed", zap.Error(err))
	}
	_, success := w.report.(*wire.WorkerResult)
	switch {
	case w.report == nil:
		return w.endCode(ExitBroken), true
	case err != nil && success:
		f := &failure{kind: failedCheckpoint, stage: wire.StageDone, number: 1, err: err}
		if !permanent(err) { // out of time
			f.kind = failedStopped
		}
		if w.report, err = w.makeReport(f); err != nil {
			w.log.Error("could not create final report", zap.Error(err))
			return ExitBroken, true
		}
	}
	return w.send()
}
