package worker

import (
	"context"
	"time"

	"retake/internal/bus/wire"

	"go.uber.org/zap"
)

// ending is an external stop.
type ending struct {
	code        ExitCode
	reason      string        // reason for the stop; see wire.Stop
	wantsReport bool          // set if the worker must report the interrupted stage
	grace       time.Duration // grace period of the running stage
	ackTimeout  time.Duration // maximum wait for the acknowledgement
}

// stopEnding returns the ending for a stop.v1. A fenced, withdrawn or replaced attempt must not report.
func stopEnding(s wire.Stop, grace time.Duration) *ending {
	e := &ending{code: ExitStopped, reason: s.Reason, grace: min(grace, duration(s.GraceSeconds, 0))}
	switch s.Reason {
	case wire.StopFenced, wire.StopWithdrawn, wire.StopReplaced:
	default:
		e.wantsReport, e.ackTimeout = true, max(time.Second, e.grace)
	}
	return e
}

// onEnding handles an external stop. If several stops arrive, the first one wins, unless a later one forbids the
// report.
func (w *worker) onEnding(e *ending) (ExitCode, bool) {
	if w.end != nil && (e.wantsReport || !w.end.wantsReport) {
		return 0, false
	}
	w.end = e
	w.log.Info("stopping", zap.String("reason", e.reason))
	switch {
	case w.stopStages != nil:
		w.stopRunning(&stopCause{e.reason, e.grace}) // onStagesEnded continues when the stages have ended
		return 0, false
	case w.reporting && e.wantsReport && e.code != ExitWatchdog:
		w.ackTimeout = time.After(e.ackTimeout)
		return 0, false
	default:
		return e.code, true
	}
}

// endCode returns the exit code of w.end. If w.end is nil, it returns the given code.
func (w *worker) endCode(otherwise ExitCode) ExitCode {
	if w.end != nil {
		return w.end.code
	}
	return otherwise
}

func (w *worker) stopRunning(why *stopCause) {
	if w.stopStages != nil {
		w.stopStages(why)
	}
}

// reportPanic makes one brief attempt to report a panic in the loop.
func (w *worker) reportPanic(ctx context.Context, fault error) ExitCode {
	w.log.Error("worker panicked", zap.Error(fault))
	if w.bus == nil || w.reporting {
		return ExitBroken
	}
	defer func() { _ = recover() }() // reporting may panic as well
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	f := &failure{kind: failedPanic, stage: w.position.progress().Stage, number: 1, err: fault}
	r := &reporter{plan: w.plan, mask: w.mask, classify: w.classify}
	if err := w.bus.Report(limited, r.failed(&attempt{}, f, "")); err != nil {
		w.log.Error("could not report panic", zap.Error(err))
	}
	return ExitBroken
}

// syncNotice is the content of .retake/sync_required.json. It tells the agent that its branch is behind its base. The
// agent can keep its change small, but need not react, because the director merges before the next attempt.
type syncNotice struct {
	At wire.Time `json:"at"`
	wire.SyncRequired
}

// onSync leaves a note for the agent. It only logs a write error, because such an error must not disturb the agent.
func (w *worker) onSync(s wire.SyncRequired) {
	log := w.log.With(zap.String("reason", s.Reason), zap.String("main_sha_expected", s.MainSHAExpected))
	if w.attempt == nil || w.attempt.folder == nil {
		log.Warn("checkout is behind its base, but there is no workspace for sync_required.json")
		return
	}
	if err := w.attempt.folder.writeJSON(syncFile, 0o644, syncNotice{wire.At(time.Now()), s}); err != nil {
		log.Warn("could not write sync_required.json", zap.Error(err))
		return
	}
	log.Info("checkout is behind its base; wrote sync_required.json for the agent")
}
