package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
	"retake/internal/safefile"
	"retake/internal/secrets/redact"

	"go.uber.org/zap"
)

// worker is one run. Its fields below the line belong to the goroutine of loop.
type worker struct {
	plan         *wire.Plan
	dial         Dialer
	runner       runner
	classify     func(recovery.Evidence) recovery.Finding
	offersLeases bool                        // to the programs of stages
	mark         func(stage string, run int) // in the output, that a stage begins
	env          environment
	mask         *redact.Redactor
	log          *zap.Logger
	syncDisk     func(dir string) error

	pauses       pauseSwitch
	position     *position
	welcomed     chan admission
	stops        chan wire.Stop
	syncs        chan wire.SyncRequired
	steps        chan step
	stagesEnded  chan *failure // nil: all stages ended well
	delivered    chan struct{}
	saved        chan error // what became of the last checkpoint
	sessionPanic chan error // a panic of the session
	outbox       chan wire.Payload
	reconnected  chan struct{} // one token

	// ----
	work       context.Context // of everything that the worker does
	bus        Bus
	spool      *spool
	checkouts  *checkpointer // nil: the checkout does not travel
	report     wire.Payload  // that waits for the last checkpoint; nil: none does, or there is none to send
	attempt    *attempt
	watchdog   *pausableTimer
	stopStages context.CancelCauseFunc // nil: no stage is running
	stages     sync.WaitGroup
	end        *ending
	outcome    ExitCode         // of the report that is on its way
	reporting  bool             // the final report was made
	ackTimeout <-chan time.Time // for the acknowledgement after an end from outside; nil: none
	heartbeats <-chan time.Time // nil before the welcome
	terminated <-chan struct{}
}

// ending is an end that comes from outside.
type ending struct {
	code        ExitCode
	reason      string        // of the stop, see wire.Stop
	wantsReport bool          // of what was going on
	grace       time.Duration // for the running stage
	ackTimeout  time.Duration // for the acknowledgement
}

func newWorker(p *wire.Plan, dial Dialer, log *zap.Logger) *worker {
	return &worker{
		plan: p, dial: dial, log: log,
		position: newPosition(p),
		syncDisk: safefile.SyncDisk, mark: func(string, int) {},
		welcomed: make(chan admission), stops: make(chan wire.Stop, 4), syncs: make(chan wire.SyncRequired, 4),
		steps: make(chan step), stagesEnded: make(chan *failure, 1),
		delivered: make(chan struct{}), saved: make(chan error, 1), sessionPanic: make(chan error, 1),
		outbox: make(chan wire.Payload, 4), reconnected: make(chan struct{}, 1),
	}
}

// run does all of the worker's work: welcome, stages, report, acknowledgement. Ending ctx is SIGTERM.
func (w *worker) run(ctx context.Context) (code ExitCode) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var session sync.WaitGroup
	session.Go(func() {
		if fault := catchPanic(func() { w.newSession().run(work) }); fault != nil {
			w.sessionPanic <- fault
		}
	})
	w.terminated, w.work = ctx.Done(), work
	if fault := catchPanic(func() { code = w.loop(work) }); fault != nil {
		code = w.reportPanic(work, fault)
	}
	w.stopRunning(&stopCause{"exit", 0})
	cancel()
	w.stages.Wait()
	session.Wait()
	if w.spool != nil && w.spool.folder != nil {
		w.spool.folder.close()
	}
	return code
}

// catchPanic calls do and returns its panic, if any, as an error.
func catchPanic(do func()) (fault error) {
	defer func() {
		if r := recover(); r != nil {
			fault = errors.New(firstBytes(fmt.Sprintf("worker: panic: %v\n%s", r, debug.Stack()), 4<<10))
		}
	}()
	do()
	return nil
}

func (w *worker) newSession() *session {
	return &session{
		plan: w.plan, dial: w.dial, log: w.log, outbox: w.outbox, reconnected: w.reconnected, welcomed: w.welcomed,
		delivered: w.delivered,
		listener: Listener{Control: w.control, Alive: w.position.heartbeat, Reconnected: func() {
			select {
			case w.reconnected <- struct{}{}:
			default:
			}
		}},
	}
}

// control takes a message of the director's. It is called by the bus and does not block.
func (w *worker) control(p wire.Payload) {
	switch v := p.(type) {
	case *wire.Stop:
		select {
		case w.stops <- *v:
		default: // four stops are waiting already
		}
	case *wire.Pause:
		if w.pauses.pause() {
			w.log.Info("pausing before the next stage")
		}
	case *wire.Resume:
		if w.pauses.resume() {
			w.log.Info("resuming")
		}
	case *wire.SyncRequired:
		select {
		case w.syncs <- *v:
		default: // four are waiting to be written already
		}
	default:
		w.log.Info("unknown command", zap.String("event", p.MessageType()))
	}
}

func (w *worker) loop(ctx context.Context) ExitCode {
	w.watchdog = newPausableTimer(duration(w.plan.WatchdogSeconds, defaultWatchdog))
	defer w.watchdog.Stop()
	grace := duration(w.plan.StopGraceSeconds, defaultGrace)
	for {
		var done bool
		var code ExitCode
		select {
		case a := <-w.welcomed:
			code, done = w.onAdmission(ctx, a)
		case s := <-w.steps:
			w.onStep(s)
		case f := <-w.stagesEnded:
			code, done = w.onStagesEnded(f)
		case err := <-w.saved:
			code, done = w.onSaved(err)
		case <-w.delivered:
			code, done = w.outcome, true
		case <-w.heartbeats:
			w.heartbeat()
		case s := <-w.stops:
			code, done = w.onEnding(stopEnding(s, grace))
		case s := <-w.syncs:
			w.onSync(s)
		case <-w.watchdog.C:
			code, done = w.onEnding(&ending{ExitWatchdog, wire.StopWatchdog, true, grace, grace})
		case <-w.terminated:
			w.terminated = nil
			// Who stops a container kills it after the same grace: half of it leaves time to end in order.
			code, done = w.onEnding(&ending{ExitTerminated, "terminated", false, grace / 2, 0})
		case fault := <-w.sessionPanic:
			code, done = w.reportPanic(ctx, fault), true
		case <-w.ackTimeout:
			w.log.Warn("the final report was not acknowledged in time; it is in the spool")
			code, done = w.end.code, true
		}
		if done {
			return code
		}
	}
}

// stopEnding is how a stop.v1 ends the worker: a fenced attempt reports nothing any more.
func stopEnding(s wire.Stop, grace time.Duration) *ending {
	e := &ending{code: ExitStopped, reason: s.Reason, grace: min(grace, duration(s.GraceSeconds, 0))}
	switch s.Reason {
	case wire.StopFenced, wire.StopWithdrawn, wire.StopReplaced:
	default:
		e.wantsReport, e.ackTimeout = true, max(time.Second, e.grace)
	}
	return e
}

func (w *worker) onAdmission(ctx context.Context, a admission) (ExitCode, bool) {
	if a.err != nil {
		w.log.Error("not admitted; giving up", zap.Error(a.err))
		return w.onEnding(&ending{code: ExitRefused, reason: wire.StopFenced})
	}
	w.bus = a.bus
	if w.heartbeats != nil {
		w.log.Info("welcomed again")
		w.heartbeat()
		return 0, false
	}
	interval := duration(a.welcome.HeartbeatIntervalSeconds,
		duration(w.plan.HeartbeatIntervalSeconds, defaultHeartbeat))
	w.log.Info("welcomed", zap.Duration("heartbeat_interval", interval))
	w.heartbeats = time.Tick(interval)
	w.heartbeat()
	return w.startStages(ctx)
}

func (w *worker) startStages(ctx context.Context) (ExitCode, bool) {
	w.attempt = &attempt{
		plan: w.plan, run: w.runner, pauses: &w.pauses, env: w.env, mask: w.mask, log: w.log,
		onUsage: w.position.setUsage, runs: map[string]int{},
	}
	w.attempt.offersLeases, w.attempt.mark = w.offersLeases, w.mark
	w.attempt.leases = newLeaseClient(w.plan, w.bus, w.log)
	w.attempt.stageEnded = func() {}
	if w.plan.Checkout != nil {
		w.checkouts = newCheckpointer(w.plan, w.bus, w.log)
		w.attempt.stageEnded = w.checkouts.soon
	}
	folder, err := openFolder(w.plan.Workdir)
	w.spool = &spool{folder: folder, attempt: w.plan.AttemptID, log: w.log}
	if err != nil {
		return w.onStagesEnded(&failure{kind: failedStart, stage: wire.StageStart, number: 1, err: err})
	}
	w.attempt.folder = folder
	if err := folder.remove(syncFile); err != nil { // the director has merged since
		w.log.Warn("the last attempt's sync_required.json could not be removed", zap.Error(err))
	}
	stageCtx, stop := context.WithCancelCause(ctx)
	w.stopStages = stop
	w.attempt.notify = func(s step) {
		select {
		case w.steps <- s:
		case <-ctx.Done():
		}
	}
	w.stages.Go(func() {
		var f *failure
		if fault := catchPanic(func() { f = w.runAttempt(stageCtx) }); fault != nil {
			f = &failure{kind: failedPanic, stage: w.position.progress().Stage, number: 1, err: fault}
		}
		if f == nil { // what is reported as done must not be lost by a power cut: agents sync nothing
			if err := w.syncDisk(w.plan.Workdir); err != nil {
				w.log.Warn("the work is not known to be on the disk", zap.Error(err))
			}
		}
		w.stagesEnded <- f
	})
	return 0, false
}

func (w *worker) onStep(s step) {
	w.position.set(s)
	w.watchdog.setPaused(s.paused)
	if !s.quiet {
		w.log.Info(s.text, zap.String("stage", s.stage))
	}
	if err := w.bus.Progress(w.position.progress()); err != nil {
		w.log.Debug("progress was not sent", zap.Error(err))
	}
	if !s.quiet {
		w.heartbeat()
	}
}

func (w *worker) heartbeat() {
	if err := w.bus.Heartbeat(w.position.heartbeat()); err != nil {
		w.log.Debug("a heartbeat was not sent", zap.Error(err))
	}
}

// onStagesEnded makes the final report of an attempt whose stages have ended.
func (w *worker) onStagesEnded(f *failure) (ExitCode, bool) {
	w.stopStages = nil
	if f != nil && f.kind == failedPanic {
		w.log.Error("the worker itself failed", zap.Error(f.err))
	}
	if w.reporting || w.bus == nil || (w.end != nil && !w.end.wantsReport) {
		// whoever stops the container may take the work with it
		if w.end != nil && w.end.code == ExitTerminated && w.checkouts.sends() {
			w.save()
			return 0, false
		}
		return w.endCode(ExitBroken), true
	}
	report, err := w.makeReport(f)
	if err != nil {
		w.log.Error("the final report cannot be made", zap.Error(err))
		return ExitBroken, true
	}
	w.reporting = true
	w.heartbeat()
	if w.end != nil {
		w.ackTimeout = time.After(w.end.ackTimeout)
	}
	if w.report = report; w.checkouts.sends() {
		w.save()
		return 0, false
	}
	return w.send()
}

// endCode is the code of the end from outside, if there was one.
func (w *worker) endCode(otherwise ExitCode) ExitCode {
	if w.end != nil {
		return w.end.code
	}
	return otherwise
}

func (w *worker) makeReport(f *failure) (wire.Payload, error) {
	r := &reporter{plan: w.plan, mask: w.mask, classify: w.classify}
	var p wire.Payload
	switch f {
	case nil:
		w.outcome, p = ExitResult, r.result(w.attempt)
		w.position.set(step{stage: wire.StageDone, text: "reporting the result"})
	default:
		reason := ""
		if w.end != nil {
			reason = w.end.reason
		}
		e := r.failed(w.attempt, f, reason)
		w.outcome, p = ExitError, e
		if f.kind == failedPanic {
			w.outcome = ExitBroken
		}
		w.position.set(step{stage: e.Stage, text: "reporting the failure", errorID: e.ErrorID})
		w.log.Info("failed", zap.String("stage", e.Stage), zap.String("reason", e.ErrorType),
			zap.String("error_id", e.ErrorID))
	}
	cut, data, err := fit(w.plan, p, time.Now())
	if err != nil {
		return nil, err
	}
	w.spool.add(cut, data)
	return cut, nil
}

// onEnding obeys an end from outside. Of several ends the first decides, but one that forbids the report always does.
func (w *worker) onEnding(e *ending) (ExitCode, bool) {
	if w.end != nil && (e.wantsReport || !w.end.wantsReport) {
		return 0, false
	}
	w.end = e
	w.log.Info("stopping", zap.String("reason", e.reason))
	switch {
	case w.stopStages != nil:
		w.stopRunning(&stopCause{e.reason, e.grace}) // onStagesEnded comes next
		return 0, false
	case w.reporting && e.wantsReport && e.code != ExitWatchdog:
		w.ackTimeout = time.After(e.ackTimeout)
		return 0, false
	default:
		return e.code, true
	}
}

func (w *worker) stopRunning(why *stopCause) {
	if w.stopStages != nil {
		w.stopStages(why)
	}
}

// reportPanic reports a fault of the loop itself, once and not for long.
func (w *worker) reportPanic(ctx context.Context, fault error) ExitCode {
	w.log.Error("the worker itself failed", zap.Error(fault))
	if w.bus == nil || w.reporting {
		return ExitBroken
	}
	defer func() { _ = recover() }() // the fault may be in what follows
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	f := &failure{kind: failedPanic, stage: w.position.progress().Stage, number: 1, err: fault}
	r := &reporter{plan: w.plan, mask: w.mask, classify: w.classify}
	if err := w.bus.Report(limited, r.failed(&attempt{}, f, "")); err != nil {
		w.log.Error("the fault could not be reported", zap.Error(err))
	}
	return ExitBroken
}

// syncNotice is .retake/sync_required.json: the agent's branch is behind its base. Nothing has to be done now;
// the director merges before the next attempt. An agent that can may keep its change small.
type syncNotice struct {
	At wire.Time `json:"at"`
	wire.SyncRequired
}

// onSync leaves a note for the agent. A file that cannot be written is no reason to disturb its work.
func (w *worker) onSync(s wire.SyncRequired) {
	log := w.log.With(zap.String("reason", s.Reason), zap.String("main_sha_expected", s.MainSHAExpected))
	if w.attempt == nil || w.attempt.folder == nil {
		log.Warn("the checkout is behind, but there is no workspace in which to tell the agent")
		return
	}
	if err := w.attempt.folder.writeJSON(syncFile, 0o644, syncNotice{wire.At(time.Now()), s}); err != nil {
		log.Warn("the agent cannot see that its checkout is behind", zap.Error(err))
		return
	}
	log.Info("the checkout is behind; the agent can see it")
}
