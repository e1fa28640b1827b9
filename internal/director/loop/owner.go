package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/fsm"
	"retake/internal/sys/crashpoint"
)

var (
	// ErrReload ends a session whose machine may differ from the journal.
	ErrReload = errors.New("director: the journal's state is unknown; reading it again")
	// ErrAnotherDirector means that another process writes this fleet's journal.
	ErrAnotherDirector = errors.New("director: another director is writing to this journal: stop it, or give this " +
		"one a separate director.fleet")
	// ErrLeaseLost ends a session whose process has lost the lease. As the cause of Run's context, it stops the owner
	// without further decisions.
	ErrLeaseLost = errors.New("director: lost the lease: another director took it, or it was not renewed in time")
)

// appendTimeout limits one append, including its retries and the reads that check them.
const appendTimeout = 30 * time.Second

// input is one unit of work for the owner. The zero value makes the owner take pending heartbeats.
type input struct {
	body fsm.EventBody
	ack  func()            // called when the decision is durable; may be nil
	read func(*fsm.Driver) // reads the machine, in an input without a body
}

// Journal is the part of the bus that the owner needs.
type Journal interface {
	Append(ctx context.Context, batchID string, expectLast uint64, data []byte) (seq uint64, err error)
	Head() bus.Head // the journal's end after the last append
}

// Owner is the only goroutine that uses the machine. Set the exported fields before Run. The function fields must not
// block.
type Owner struct {
	Clock     *Clock                                 // stamps every event
	Effects   func(fsm.Effect)                       // carries out an effect after its facts are durable
	OnDurable func(fsm.Record)                       // receives each durable record
	OnBatch   func(seq uint64, records []fsm.Record) // receives each durable batch
	// Throttled returns how long a CPU quota has kept this process from running, in total. Nil means no quota.
	Throttled func() (total time.Duration, ok bool)

	driver     *fsm.Driver
	journal    Journal
	log        *zap.Logger
	inputs     chan input
	heartbeats *heartbeats
	late       *lag
	planned    time.Duration // how long the owner meant to wait before its current turn
	appended   chan appendResult
	acks       map[fsm.Token]func()
	token      fsm.Token
	appends    sync.WaitGroup
	appending  time.Time       // when the current append began; zero between appends
	broken     chan error      // why the session must end; capacity 1, so only the first reason counts
	ctx        context.Context // context of appends, which outlives Run's context, so that finish can complete them
	done       chan struct{}   // closed when Run has its result, which releases every caller that waits for the owner
	err        error           // Run's result; written before done is closed
}

type appendResult struct {
	batch *fsm.Batch
	seq   uint64
	err   error
}

// New returns an owner of the driver's machine. Its clock starts at wall time.
func New(d *fsm.Driver, j Journal, log *zap.Logger) *Owner {
	late := &lag{ttl: d.Machine().HeartbeatTTL()}
	return &Owner{
		late: late, planned: turnEvery(late.ttl),
		Clock: NewClock(time.Now()), Effects: func(fsm.Effect) {}, OnDurable: func(fsm.Record) {},
		OnBatch: func(uint64, []fsm.Record) {},
		driver:  d, journal: j, log: log, acks: map[fsm.Token]func(){}, heartbeats: newHeartbeats(),
		broken: make(chan error, 1), inputs: make(chan input, 256), appended: make(chan appendResult, 1),
		done: make(chan struct{}),
	}
}

// Send offers an event. It blocks while the owner is behind, and does nothing if ctx or the session has ended. ack
// may be nil. The owner calls ack when the decision is durable.
func (o *Owner) Send(ctx context.Context, body fsm.EventBody, ack func()) {
	select {
	case o.inputs <- input{body: body, ack: ack}:
	case <-o.done:
	case <-ctx.Done():
	}
}

// Decided sends an event, waits for the decision, and reports whether it became durable.
func (o *Owner) Decided(ctx context.Context, body fsm.EventBody) bool {
	durable := make(chan struct{})
	o.Send(ctx, body, func() { close(durable) })
	select {
	case <-durable:
		return true
	case <-o.done:
	case <-ctx.Done():
	}
	return false
}

// Reload ends the session with err, which makes the caller reread the journal. It never blocks. Only the first error
// counts.
func (o *Owner) Reload(err error) {
	select {
	case o.broken <- err:
	default: // the session is already ending
	}
}

// Look returns the result of f, which reads the machine on the owner's goroutine. The result must not refer to the
// machine. After Run has ended, Look returns Run's error, or ErrReload if Run succeeded.
func Look[T any](ctx context.Context, o *Owner, f func(*fsm.Driver) T) (seen T, err error) {
	answer := make(chan T, 1)
	select {
	case o.inputs <- input{read: func(d *fsm.Driver) { answer <- f(d) }}:
	case <-o.done:
		return seen, o.ended()
	case <-ctx.Done():
		return seen, context.Cause(ctx)
	}
	select {
	case seen = <-answer:
		return seen, nil
	case <-o.done:
		return seen, o.ended()
	case <-ctx.Done():
		return seen, context.Cause(ctx)
	}
}

// Driver returns the driver. Use it only before Run starts or after it returns. In between, use Look.
func (o *Owner) Driver() *fsm.Driver { return o.driver }

// Head returns the end of the journal. Call it inside Look, or while Run is not running.
func (o *Owner) Head() bus.Head { return o.journal.Head() }

// AppendingSince returns when the current append began, or zero if the journal is idle. Call it inside Look.
func (o *Owner) AppendingSince() time.Time { return o.appending }

// Offer gives an event to the machine on the caller's goroutine, before Run. Run makes the decision durable.
func (o *Owner) Offer(body fsm.EventBody) error { return o.handle(input{body: body}) }

// Run handles inputs until the context is done. It then lets the machine handle the shutdown, and waits up to
// appendTimeout for every decision to reach the journal. It returns ErrReload or ErrAnotherDirector if an append fails.
func (o *Owner) Run(ctx context.Context) error {
	defer o.appends.Wait()
	o.err = o.run(ctx)
	close(o.done)
	return o.err
}

// ended returns Run's result for callers of Look. They may report it before Run's caller does, so it must be as
// detailed as Run's error.
func (o *Owner) ended() error { return cmp.Or(o.err, ErrReload) }

func (o *Owner) run(ctx context.Context) error {
	appends, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	o.ctx, o.late.throttled = appends, o.Throttled
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	for ctx.Err() == nil {
		o.flush()
		o.planned = o.wait()
		timer.Reset(o.planned)
		select {
		case in := <-o.inputs:
			if err := o.handleWaiting(in); err != nil {
				return err
			}
		case r := <-o.appended:
			if err := o.appendEnded(r); err != nil {
				return err
			}
		case err := <-o.broken:
			o.driver.Stop()
			return fmt.Errorf("%w: %w", ErrReload, err)
		case <-timer.C:
			if err := o.handle(input{body: fsm.Tick{}}); err != nil {
				return err
			}
			if err := o.reportLateness(o.Clock.Now()); err != nil {
				return err
			}
		case <-ctx.Done():
		}
	}
	return o.finish(ctx)
}

// finish lets the machine handle the shutdown, and waits up to appendTimeout for every decision to reach the journal.
// If the lease was lost, finish only stops the driver.
func (o *Owner) finish(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), ErrLeaseLost) {
		o.driver.Stop()
		return nil
	}
	if err := o.handle(input{body: fsm.SignalReceived{Signal: fmt.Sprint(context.Cause(ctx))}}); err != nil {
		return err
	}
	late := time.NewTimer(appendTimeout)
	defer late.Stop()
	for o.flush(); !o.driver.Idle(); o.flush() {
		select {
		case r := <-o.appended:
			if err := o.appendEnded(r); err != nil {
				return err
			}
		case <-late.C:
			return fmt.Errorf("director: the journal did not accept an append within %s, so the director will decide "+
				"again",
				appendTimeout)
		}
	}
	return nil
}

// wait returns the time until the next deadline, at most turnEvery.
func (o *Owner) wait() time.Duration {
	next, most := o.driver.Machine().NextDeadline(), turnEvery(o.late.ttl)
	if next.IsZero() {
		return most
	}
	return min(max(next.Sub(o.Clock.Now()), 0), most)
}

// inputsPerTurn limits how many inputs the owner handles before it turns to appends and timers. A full turn takes a
// few milliseconds.
const inputsPerTurn = 256

// handleWaiting handles an input and the inputs queued behind it, so that the decisions of one turn share an append.
func (o *Owner) handleWaiting(in input) error {
	for range inputsPerTurn - 1 {
		if err := o.handle(in); err != nil {
			return err
		}
		if len(o.inputs) == 0 {
			runtime.Gosched() // let a goroutine that is about to send run first
		}
		select {
		case in = <-o.inputs:
		default:
			return nil
		}
	}
	return o.handle(in)
}

// handle offers one input to the driver. Pending heartbeats go first if a deadline has passed or the input reads the
// machine. Otherwise a worker would seem silent although its heartbeat is queued.
func (o *Owner) handle(in input) error {
	at, away, gap := o.Clock.tick(lateAfter(o.late.ttl))
	if late := max(away, gap); late > o.planned+o.late.least() {
		o.late.add(DelaySuspended, late, at)
	}
	if gap > 0 {
		o.log.Warn("the director was suspended; giving workers time to report",
			zap.Duration("gap", gap))
		if err := o.driver.Offer(fsm.Event{At: at, Body: fsm.DirectorResumed{Gap: gap}}, 0); err != nil {
			return err
		}
	}
	if in.body == nil || o.driver.Machine().Due(at) { // a deadline is due, or the input reads the machine
		if err := o.reportLateness(at); err != nil {
			return err
		}
		if err := o.takeSigns(at); err != nil {
			return err
		}
	}
	if in.read != nil {
		in.read(o.driver)
	}
	if in.body == nil {
		return nil
	}
	var token fsm.Token
	if in.ack != nil {
		o.token++
		token = o.token
		o.acks[token] = in.ack
	}
	return o.driver.Offer(fsm.Event{At: at, Body: in.body}, token)
}

// flush calls the acks, starts the effects, and starts the next append. Only one append runs at a time, because the
// driver prepares the next batch only when the last one is durable.
func (o *Owner) flush() {
	r := o.driver.Ready()
	for _, t := range r.Acks {
		o.acks[t]()
		delete(o.acks, t)
	}
	for _, e := range r.Effects {
		o.Effects(e)
	}
	if b := r.Batch; b != nil {
		o.appending = time.Now()
		o.late.appends(o.Clock.Now())
		o.appends.Go(func() {
			ctx, cancel := context.WithTimeout(o.ctx, appendTimeout)
			defer cancel()
			crashpoint.Reached("append/before")
			seq, err := o.journal.Append(ctx, b.ID, b.After, b.Data)
			crashpoint.Reached("append/after")
			o.appended <- appendResult{b, seq, err}
		})
	}
}

func (o *Owner) appendEnded(r appendResult) error {
	o.appending = time.Time{}
	o.late.appended(o.Clock.Now())
	switch {
	case r.err == nil:
		o.driver.Appended(r.seq)
		o.OnBatch(r.seq, r.batch.Records)
		for _, rec := range r.batch.Records {
			o.OnDurable(rec)
		}
		return nil
	case errors.Is(r.err, bus.ErrRefused):
		o.driver.Stop()
		return fmt.Errorf("%w (%w)", ErrAnotherDirector, r.err)
	default:
		o.driver.Stop()
		return fmt.Errorf("%w: %w", ErrReload, r.err)
	}
}
