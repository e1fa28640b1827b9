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

// worker is the state of one run. Only the loop goroutine uses the fields below the line.
type worker struct {
	plan         *wire.Plan
	dial         Dialer
	runner       runner
	classify     func(recovery.Evidence) recovery.Finding
	offersLeases bool                        // set if stage programs may ask for leases
	mark         func(stage string, run int) // marks the beginning of a stage in the output
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
	stagesEnded  chan *failure // nil on success
	delivered    chan struct{}
	saved        chan error // receives the result of the last checkpoint
	sessionPanic chan error // receives a panic from the session
	outbox       chan wire.Payload
	reconnected  chan struct{} // holds one token after a reconnection

	// ----
	work       context.Context // context of the whole worker
	bus        Bus
	spool      *spool
	checkouts  *checkpointer // nil unless the checkout travels
	report     wire.Payload  // waits for the last checkpoint; may be nil
	attempt    *attempt
	watchdog   *pausableTimer
	stopStages context.CancelCauseFunc // nil unless the stages are running
	stages     sync.WaitGroup
	end        *ending
	outcome    ExitCode         // exit code for the report being sent
	reporting  bool             // set once the final report exists
	ackTimeout <-chan time.Time // bounds the wait for an acknowledgement after an external stop; may be nil
	heartbeats <-chan time.Time // nil before the welcome
	terminated <-chan struct{}
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

// run runs the whole attempt: welcome, stages, report, acknowledgement. A done ctx means SIGTERM.
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

// control receives a message from the director. It must not block, because the bus calls it.
func (w *worker) control(p wire.Payload) {
	switch v := p.(type) {
	case *wire.Stop:
		select {
		case w.stops <- *v:
		default: // the queue already holds four stops
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
		default: // the queue already holds four notices
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
			// The container is killed after the same grace period. Using only half of it leaves time for an orderly
			// exit.
			code, done = w.onEnding(&ending{ExitTerminated, "terminated", false, grace / 2, 0})
		case fault := <-w.sessionPanic:
			code, done = w.reportPanic(ctx, fault), true
		case <-w.ackTimeout:
			w.log.Warn("timed out waiting for acknowledgement of the final report; it stays in the spool")
			code, done = w.end.code, true
		}
		if done {
			return code
		}
	}
}

func (w *worker) onAdmission(ctx context.Context, a admission) (ExitCode, bool) {
	if a.err != nil {
		w.log.Error("director refused admission; giving up", zap.Error(a.err))
		return w.onEnding(&ending{code: ExitRefused, reason: wire.StopFenced})
	}
	w.bus = a.bus
	if w.heartbeats != nil {
		w.log.Info("readmitted by director")
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
	folder, err := openStateDir(w.plan.Workdir)
	w.spool = &spool{folder: folder, attempt: w.plan.AttemptID, log: w.log}
	if err != nil {
		return w.onStagesEnded(&failure{kind: failedStart, stage: wire.StageStart, number: 1, err: err})
	}
	w.attempt.folder = folder
	if err := folder.remove(syncFile); err != nil { // the director has merged the base branch since the last attempt
		w.log.Warn("could not remove the last attempt's sync_required.json", zap.Error(err))
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
		if f == nil { // agents do not sync their files, and a power cut must not lose reported work
			if err := w.syncDisk(w.plan.Workdir); err != nil {
				w.log.Warn("could not sync the work to disk", zap.Error(err))
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
		w.log.Debug("could not send progress", zap.Error(err))
	}
	if !s.quiet {
		w.heartbeat()
	}
}

func (w *worker) heartbeat() {
	if err := w.bus.Heartbeat(w.position.heartbeat()); err != nil {
		w.log.Debug("could not send heartbeat", zap.Error(err))
	}
}

// onStagesEnded creates the final report once the stages have ended.
func (w *worker) onStagesEnded(f *failure) (ExitCode, bool) {
	w.stopStages = nil
	if f != nil && f.kind == failedPanic {
		w.log.Error("worker panicked", zap.Error(f.err))
	}
	if w.reporting || w.bus == nil || (w.end != nil && !w.end.wantsReport) {
		// Save the work, because it may disappear with the container.
		if w.end != nil && w.end.code == ExitTerminated && w.checkouts.sends() {
			w.save()
			return 0, false
		}
		return w.endCode(ExitBroken), true
	}
	report, err := w.makeReport(f)
	if err != nil {
		w.log.Error("could not create the final report", zap.Error(err))
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
