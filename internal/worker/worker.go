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

	"go.uber.org/zap"
)

// worker is one run. Its fields below the line belong to the goroutine of loop.
type worker struct {
	plan     *wire.Plan
	dial     Dialer
	runner   runner
	classify func(recovery.Evidence) recovery.Finding
	openDoor func(*broker, ...string) (*door, error) // nil: the stages get no leases
	env      environment
	mask     *masker
	log      *zap.Logger

	gate      gate
	where     *position
	welcomed  chan admission
	stops     chan wire.Stop
	syncs     chan wire.SyncRequired
	steps     chan step
	finished  chan *failure // nil: all stages ended well
	delivered chan spooled
	broken    chan error // a panic of the session
	outbox    chan spooled
	again     chan struct{} // reconnected

	// ----
	bus        Bus
	spool      *spool
	attempt    *attempt
	door       *door
	watchdog   *countdown
	stopStages context.CancelCauseFunc // nil: no stage is running
	stages     sync.WaitGroup
	end        *ending
	outcome    ExitCode     // of the report that is on its way
	reporting  bool         // the final report was made
	patience   *time.Timer  // for the acknowledgement after an end from outside
	beat       *time.Ticker // nil before the welcome
	terminated <-chan struct{}
}

// ending is an end that comes from outside.
type ending struct {
	code     ExitCode
	reason   string        // of the stop, see wire.Stop
	report   bool          // say what was going on
	grace    time.Duration // for the running stage
	patience time.Duration // for the acknowledgement
}

func newWorker(p *wire.Plan, dial Dialer, log *zap.Logger) *worker {
	return &worker{
		plan: p, dial: dial, log: log,
		where:    newPosition(p),
		welcomed: make(chan admission), stops: make(chan wire.Stop, 4), syncs: make(chan wire.SyncRequired, 4), steps: make(chan step), finished: make(chan *failure, 1),
		delivered: make(chan spooled), broken: make(chan error, 1), outbox: make(chan spooled, 4), again: make(chan struct{}, 1),
	}
}

// run lives the worker's life: welcome, stages, report, acknowledgement. Ending ctx is SIGTERM.
func (w *worker) run(ctx context.Context) (code ExitCode) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var session sync.WaitGroup
	session.Go(func() {
		if fault := guarded(func() { w.newSession().run(work) }); fault != nil {
			w.broken <- fault
		}
	})
	w.terminated = ctx.Done()
	if fault := guarded(func() { code = w.loop(work) }); fault != nil {
		code = w.lastWords(work, fault)
	}
	w.stopRunning(&stopCause{"exit", 0})
	cancel()
	w.stages.Wait()
	session.Wait()
	w.door.close()
	if w.spool != nil && w.spool.folder != nil {
		w.spool.folder.close()
	}
	return code
}

// guarded calls do and returns its panic, if any, as an error.
func guarded(do func()) (fault error) {
	defer func() {
		if r := recover(); r != nil {
			fault = errors.New(oldest(fmt.Sprintf("worker: panic: %v\n%s", r, debug.Stack()), 4<<10))
		}
	}()
	do()
	return nil
}

func (w *worker) newSession() *session {
	return &session{
		plan: w.plan, dial: w.dial, log: w.log, outbox: w.outbox, reconnected: w.again, welcomed: w.welcomed, delivered: w.delivered,
		listener: Listener{Control: w.control, Alive: w.where.heartbeat, Reconnected: func() {
			select {
			case w.again <- struct{}{}:
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
		if w.gate.shut() {
			w.log.Info("told to pause before the next stage")
		}
	case *wire.Resume:
		if w.gate.open() {
			w.log.Info("told to go on")
		}
	case *wire.SyncRequired:
		select {
		case w.syncs <- *v:
		default: // four are waiting to be written already
		}
	default:
		w.log.Info("a control message that this worker does not act on", zap.String("event", p.MessageType()))
	}
}

func (w *worker) loop(ctx context.Context) ExitCode {
	w.watchdog = newCountdown(seconds(w.plan.WatchdogSeconds, defaultWatchdog))
	defer w.watchdog.Stop()
	grace := seconds(w.plan.StopGraceSeconds, defaultGrace)
	for {
		var done bool
		var code ExitCode
		select {
		case a := <-w.welcomed:
			code, done = w.onAdmission(ctx, a)
		case s := <-w.steps:
			w.onStep(ctx, s)
		case f := <-w.finished:
			code, done = w.onFinished(f)
		case item := <-w.delivered:
			w.spool.drop(item)
			code, done = w.outcome, true
		case <-tick(w.beat):
			w.heartbeat(ctx)
		case s := <-w.stops:
			code, done = w.onEnd(stopEnding(s, grace))
		case s := <-w.syncs:
			w.onSync(s)
		case <-w.watchdog.C:
			code, done = w.onEnd(&ending{ExitWatchdog, wire.StopWatchdog, true, grace, grace})
		case <-w.terminated:
			w.terminated = nil
			// Who stops a container kills it after the same grace: half of it leaves time to end in order.
			code, done = w.onEnd(&ending{ExitTerminated, "terminated", false, grace / 2, 0})
		case fault := <-w.broken:
			code, done = w.lastWords(ctx, fault), true
		case <-expiry(w.patience):
			w.log.Warn("the final report was not acknowledged in time; it stays in the spool")
			code, done = w.end.code, true
		}
		if done {
			return code
		}
	}
}

// stopEnding says how a stop.v1 ends the worker: for a fenced attempt nobody wants to hear anything more.
func stopEnding(s wire.Stop, grace time.Duration) *ending {
	e := &ending{code: ExitStopped, reason: s.Reason, grace: min(grace, seconds(s.GraceSeconds, 0))}
	switch s.Reason {
	case wire.StopFenced, wire.StopWithdrawn, wire.StopReplaced:
	default:
		e.report, e.patience = true, max(time.Second, e.grace)
	}
	return e
}

func (w *worker) onAdmission(ctx context.Context, a admission) (ExitCode, bool) {
	if a.err != nil {
		w.log.Error("not admitted; nothing more is done", zap.Error(a.err))
		return w.onEnd(&ending{code: ExitRefused, reason: wire.StopFenced})
	}
	w.bus = a.bus
	if w.beat != nil {
		w.log.Info("welcomed again")
		w.heartbeat(ctx)
		return 0, false
	}
	interval := seconds(a.welcome.HeartbeatIntervalSeconds, seconds(w.plan.HeartbeatIntervalSeconds, defaultHeartbeat))
	w.log.Info("welcomed", zap.Duration("heartbeat_interval", interval))
	w.beat = time.NewTicker(interval)
	w.heartbeat(ctx)
	return w.startStages(ctx)
}

func (w *worker) startStages(ctx context.Context) (ExitCode, bool) {
	w.attempt = &attempt{plan: w.plan, run: w.runner, gate: &w.gate, env: w.env, mask: w.mask, log: w.log, spent: w.where.spent, runs: map[string]int{}}
	w.attempt.broker = newBroker(w.plan, w.bus, w.log)
	place, err := openFolder(w.plan.Workdir)
	w.spool = &spool{folder: place, attempt: w.plan.AttemptID, log: w.log}
	if err != nil {
		return w.onFinished(&failure{kind: unable, stage: wire.StageStart, number: 1, err: err})
	}
	w.attempt.folder = place
	w.spool.sayLeftovers()
	if err := place.remove(syncFile); err != nil { // the director has merged since
		w.log.Warn("an old word about the base branch could not be removed", zap.Error(err))
	}
	w.openTheDoor()
	stageCtx, stop := context.WithCancelCause(ctx)
	w.stopStages = stop
	w.attempt.tell = func(s step) {
		select {
		case w.steps <- s:
		case <-ctx.Done():
		}
	}
	w.stages.Go(func() {
		var f *failure
		if fault := guarded(func() { f = w.attempt.perform(stageCtx) }); fault != nil {
			f = &failure{kind: panicked, stage: w.where.progress().Stage, number: 1, err: fault}
		}
		w.finished <- f
	})
	return 0, false
}

func (w *worker) onStep(ctx context.Context, s step) {
	w.where.move(s)
	w.watchdog.hold(s.paused)
	if !s.quiet {
		w.log.Info(s.text, zap.String("stage", s.stage))
	}
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := w.bus.Progress(limited, w.where.progress()); err != nil {
		w.log.Debug("progress was not sent", zap.Error(err))
	}
	if !s.quiet {
		w.heartbeat(ctx)
	}
}

func (w *worker) heartbeat(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := w.bus.Heartbeat(limited, w.where.heartbeat()); err != nil {
		w.log.Debug("a heartbeat was not sent", zap.Error(err))
	}
}

// onFinished makes the final report of an attempt whose stages have ended.
func (w *worker) onFinished(f *failure) (ExitCode, bool) {
	w.stopStages = nil
	if f != nil && f.kind == panicked {
		w.log.Error("the worker itself failed", zap.Error(f.err))
	}
	if w.reporting || w.bus == nil || (w.end != nil && !w.end.report) {
		return w.endCode(ExitBroken), true
	}
	item, err := w.report(f)
	if err != nil {
		w.log.Error("the final report cannot be made", zap.Error(err))
		return ExitBroken, true
	}
	w.reporting = true
	w.outbox <- item
	if w.end != nil {
		w.outcome = w.end.code
		w.patience = time.NewTimer(w.end.patience)
	}
	return 0, false
}

// endCode is the code of the end from outside, if there was one.
func (w *worker) endCode(otherwise ExitCode) ExitCode {
	if w.end != nil {
		return w.end.code
	}
	return otherwise
}

func (w *worker) report(f *failure) (spooled, error) {
	r := &reporter{plan: w.plan, mask: w.mask, classify: w.classify}
	var p wire.Payload
	switch f {
	case nil:
		w.outcome, p = ExitResult, r.result(w.attempt)
		w.where.move(step{stage: wire.StageDone})
	default:
		reason := ""
		if w.end != nil {
			reason = w.end.reason
		}
		e := r.failed(w.attempt, f, reason)
		w.outcome, p = ExitError, e
		if f.kind == panicked {
			w.outcome = ExitBroken
		}
		w.where.failed(e.ErrorID)
		w.log.Info("failed", zap.String("stage", e.Stage), zap.String("reason", e.ErrorType), zap.String("error_id", e.ErrorID))
	}
	cut, data, err := fit(w.plan, p, time.Now())
	if err != nil {
		return spooled{}, err
	}
	return w.spool.put(cut, data), nil
}

// onEnd obeys an end from outside. Of several ends the first decides, but one that forbids the report always does.
func (w *worker) onEnd(e *ending) (ExitCode, bool) {
	if w.end != nil && (e.report || !w.end.report) {
		return 0, false
	}
	w.end = e
	w.log.Info("stopping", zap.String("reason", e.reason))
	switch {
	case w.stopStages != nil:
		w.stopRunning(&stopCause{e.reason, e.grace}) // finished comes next
		return 0, false
	case w.reporting && e.report && e.code != ExitWatchdog:
		w.patience = time.NewTimer(e.patience)
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

// lastWords reports a fault of the loop itself, once and not for long.
func (w *worker) lastWords(ctx context.Context, fault error) ExitCode {
	w.log.Error("the worker itself failed", zap.Error(fault))
	if w.bus == nil || w.reporting {
		return ExitBroken
	}
	defer func() { _ = recover() }() // the fault may be in what follows
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	f := &failure{kind: panicked, stage: w.where.progress().Stage, number: 1, err: fault}
	r := &reporter{plan: w.plan, mask: w.mask, classify: w.classify}
	if err := w.bus.Report(limited, r.failed(&attempt{}, f, "")); err != nil {
		w.log.Error("the fault could not be reported", zap.Error(err))
	}
	return ExitBroken
}

// tick and expiry are the channels of timers that may not exist yet; nil blocks for ever.
func tick(t *time.Ticker) <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.C
}

func expiry(t *time.Timer) <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.C
}
