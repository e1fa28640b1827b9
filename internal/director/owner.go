package director

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/crashpoint"
	"retake/internal/fsm"
)

var (
	// errReload ends a session whose machine may differ from the journal.
	errReload = errors.New("director: the journal's state is unknown; reading it again")
	// ErrAnotherDirector: somebody else writes this fleet's journal.
	ErrAnotherDirector = errors.New("director: another director writes this journal: stop it, or give this one a " +
		"director.fleet of its own")
)

// appendTimeout bounds one append, all tries and their read-backs included.
const appendTimeout = 30 * time.Second

// input is something for the owner to handle. The zero one: the signs of life that wait are to be taken.
type input struct {
	body fsm.EventBody
	ack  func()            // called once the decision is durable; may be nil
	read func(*fsm.Driver) // looks at the machine instead; body is nil then
}

// journal is what the owner needs of the bus.
type journal interface {
	Append(ctx context.Context, batchID string, expectLast uint64, data []byte) (seq uint64, err error)
	Head() bus.Head // behind the last append
}

// owner is the one goroutine that touches the machine.
type owner struct {
	driver    *fsm.Driver
	journal   journal
	log       *zap.Logger
	effects   func(fsm.Effect)                       // must not block
	onDurable func(fsm.Record)                       // must not block
	onBatch   func(seq uint64, records []fsm.Record) // the same, as the journal has it; must not block

	inputs    chan input
	signs     *signs // of life, which need not be inputs each
	appended  chan appendResult
	clock     *clock
	acks      map[fsm.Token]func()
	token     fsm.Token
	appends   sync.WaitGroup
	appending time.Time       // when the append that is under way began; zero: none is
	broken    chan error      // room for one: why the session has to end
	ctx       context.Context // of appends: they outlast the session's, to be finished in order
	done      chan struct{}   // closed when run returned: what waits for the owner gives up
}

type appendResult struct {
	batch *fsm.Batch
	seq   uint64
	err   error
}

func newOwner(d *fsm.Driver, j journal, log *zap.Logger) *owner {
	return &owner{
		driver: d, journal: j, log: log, clock: newClock(time.Now()), acks: map[fsm.Token]func(){},
		onBatch: func(uint64, []fsm.Record) {}, signs: newSigns(),
		broken: make(chan error, 1), inputs: make(chan input, 256), appended: make(chan appendResult, 1),
		done: make(chan struct{}),
	}
}

// send offers an event; it waits while the owner is behind, and gives up when the session is over.
func (o *owner) send(ctx context.Context, body fsm.EventBody, ack func()) {
	select {
	case o.inputs <- input{body: body, ack: ack}:
	case <-o.done:
	case <-ctx.Done():
	}
}

// fail ends the session: the journal is read again.
func (o *owner) fail(err error) {
	select {
	case o.broken <- err:
	default: // it ends already
	}
}

// look returns what f sees of the machine. Nothing but the result leaves the owner's goroutine: whoever asked
// may have given up.
func look[T any](ctx context.Context, o *owner, f func(*fsm.Driver) T) (seen T, err error) {
	answer := make(chan T, 1)
	select {
	case o.inputs <- input{read: func(d *fsm.Driver) { answer <- f(d) }}:
	case <-o.done:
		return seen, errReload
	case <-ctx.Done():
		return seen, context.Cause(ctx)
	}
	select {
	case seen = <-answer:
		return seen, nil
	case <-o.done:
		return seen, errReload
	case <-ctx.Done():
		return seen, context.Cause(ctx)
	}
}

// run handles inputs until the context ends, then makes durable what was decided. It returns errReload or
// ErrAnotherDirector when the journal does not take an append.
func (o *owner) run(ctx context.Context) error {
	defer o.appends.Wait()
	defer close(o.done)
	appends, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	o.ctx = appends
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	for ctx.Err() == nil {
		o.flush()
		timer.Reset(o.wait())
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
			return fmt.Errorf("%w: %w", errReload, err)
		case <-timer.C:
			if err := o.handle(input{body: fsm.Tick{}}); err != nil {
				return err
			}
		case <-ctx.Done():
		}
	}
	return o.finish(ctx)
}

// finish decides the signal and waits, bounded, until everything is in the journal. Who has lost the lease
// decides nothing more.
func (o *owner) finish(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errLeaseLost) {
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
			return fmt.Errorf("director: the journal took no append for %s; what is not in it will be decided again",
				appendTimeout)
		}
	}
	return nil
}

// wait returns how long nothing will happen by itself, at most a second: the owner notices by its own turns that it
// was away.
func (o *owner) wait() time.Duration {
	next := o.driver.Machine().NextDeadline()
	if next.IsZero() {
		return time.Second
	}
	return min(max(next.Sub(o.clock.peek()), 0), time.Second)
}

// inputsPerTurn bounds what is decided before the owner looks at anything else: some milliseconds of its time.
const inputsPerTurn = 256

// handleWaiting offers an input, and those that wait behind it: what is decided in one turn is appended together.
func (o *owner) handleWaiting(in input) error {
	for range inputsPerTurn - 1 {
		if err := o.handle(in); err != nil {
			return err
		}
		if len(o.inputs) == 0 {
			runtime.Gosched() // whoever is about to send the next one does
		}
		select {
		case in = <-o.inputs:
		default:
			return nil
		}
	}
	return o.handle(in)
}

// handle offers one input to the driver.
func (o *owner) handle(in input) error {
	at, gap := o.clock.now()
	if gap > 0 {
		o.log.Warn("the director was not running for a while; workers get time to report again",
			zap.Duration("gap", gap))
		if err := o.driver.Offer(fsm.Event{At: at, Body: fsm.DirectorResumed{Gap: gap}}, 0); err != nil {
			return err
		}
	}
	if in.body == nil || o.driver.Machine().Due(at) { // before anything is decided about a silence, or shown of it
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

// flush does what the driver has ready.
func (o *owner) flush() {
	r := o.driver.Ready()
	for _, t := range r.Acks {
		o.acks[t]()
		delete(o.acks, t)
	}
	for _, e := range r.Effects {
		o.effects(e)
	}
	if b := r.Batch; b != nil {
		o.appending = time.Now()
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

func (o *owner) appendEnded(r appendResult) error {
	o.appending = time.Time{}
	switch {
	case r.err == nil:
		o.driver.Appended(r.seq)
		o.onBatch(r.seq, r.batch.Records)
		for _, rec := range r.batch.Records {
			o.onDurable(rec)
		}
		return nil
	case errors.Is(r.err, bus.ErrRefused):
		o.driver.Stop()
		return fmt.Errorf("%w (%w)", ErrAnotherDirector, r.err)
	default:
		o.driver.Stop()
		return fmt.Errorf("%w: %w", errReload, r.err)
	}
}

// decided hands the machine an event, waits, and reports whether the decision has become durable.
func (s *session) decided(ctx context.Context, body fsm.EventBody) bool {
	durable := make(chan struct{})
	s.owner.send(ctx, body, func() { close(durable) })
	select {
	case <-durable:
		return true
	case <-s.owner.done:
	case <-ctx.Done():
	}
	return false
}
