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
	// ErrAnotherDirector: somebody else writes this fleet's journal.
	ErrAnotherDirector = errors.New("director: another director writes this journal: stop it, or give this one a " +
		"director.fleet of its own")
	// ErrLeaseLost ends a session whose process no longer leads. As the cause of Run's context it keeps the owner from
	// deciding anything more.
	ErrLeaseLost = errors.New("director: it leads no more: its lease is another's, or could not be renewed in time")
)

// appendTimeout bounds one append, all tries and their read-backs included.
const appendTimeout = 30 * time.Second

// input is what the owner handles. The zero value makes it take the signs of life that wait.
type input struct {
	body fsm.EventBody
	ack  func()            // called once the decision is durable; may be nil
	read func(*fsm.Driver) // looks at the machine instead; body is nil then
}

// Journal is what the owner needs of the bus.
type Journal interface {
	Append(ctx context.Context, batchID string, expectLast uint64, data []byte) (seq uint64, err error)
	Head() bus.Head // behind the last append
}

// Owner is the one goroutine that touches the machine. Set its exported fields before Run; none of these functions may
// block.
type Owner struct {
	Clock     *Clock                                 // stamps every event
	Effects   func(fsm.Effect)                       // carries out an effect whose facts are durable
	OnDurable func(fsm.Record)                       // follows each record that the journal has taken
	OnBatch   func(seq uint64, records []fsm.Record) // follows each batch as the journal has it

	driver    *fsm.Driver
	journal   Journal
	log       *zap.Logger
	inputs    chan input
	signs     *signs
	appended  chan appendResult
	acks      map[fsm.Token]func()
	token     fsm.Token
	appends   sync.WaitGroup
	appending time.Time       // when the append under way began; zero: none is
	broken    chan error      // why the session has to end; room for one
	ctx       context.Context // of appends: they outlast the session's, to be finished in order
	done      chan struct{}   // closed when Run has its result: what waits for the owner gives up
	err       error           // the result; written before done is closed
}

type appendResult struct {
	batch *fsm.Batch
	seq   uint64
	err   error
}

// New returns an owner of the driver's machine, whose clock begins at wall time.
func New(d *fsm.Driver, j Journal, log *zap.Logger) *Owner {
	return &Owner{
		Clock: NewClock(time.Now()), Effects: func(fsm.Effect) {}, OnDurable: func(fsm.Record) {},
		OnBatch: func(uint64, []fsm.Record) {},
		driver:  d, journal: j, log: log, acks: map[fsm.Token]func(){}, signs: newSigns(),
		broken: make(chan error, 1), inputs: make(chan input, 256), appended: make(chan appendResult, 1),
		done: make(chan struct{}),
	}
}

// Send offers an event; it waits while the owner is behind, and gives up when the session is over. ack, which may be
// nil, is called once the decision is durable.
func (o *Owner) Send(ctx context.Context, body fsm.EventBody, ack func()) {
	select {
	case o.inputs <- input{body: body, ack: ack}:
	case <-o.done:
	case <-ctx.Done():
	}
}

// Decided sends an event, waits, and reports whether the decision has become durable.
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

// Reload ends the session with an error that makes the journal be read again.
func (o *Owner) Reload(err error) {
	select {
	case o.broken <- err:
	default: // it ends already
	}
}

// Look returns what f sees of the machine. Nothing but the result leaves the owner's goroutine, since the caller may
// have given up. Once Run has ended, the error is Run's, or ErrReload.
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

// Driver is for the time before Run, and after it. In between only Look may touch it.
func (o *Owner) Driver() *fsm.Driver { return o.driver }

// Head is where the journal ends. Call it inside Look, or while Run does not run.
func (o *Owner) Head() bus.Head { return o.journal.Head() }

// AppendingSince is when the append under way began; zero means that there is none. Call it inside Look.
func (o *Owner) AppendingSince() time.Time { return o.appending }

// Offer hands the machine an event before Run, on the caller's goroutine. Run makes durable what it decides.
func (o *Owner) Offer(body fsm.EventBody) error { return o.handle(input{body: body}) }

// Run handles inputs until the context ends, then makes durable what was decided. It returns ErrReload or
// ErrAnotherDirector when the journal does not take an append.
func (o *Owner) Run(ctx context.Context) error {
	defer o.appends.Wait()
	o.err = o.run(ctx)
	close(o.done)
	return o.err
}

// ended is what a Look gets when Run is over. Another goroutine may report it before Run's caller does, so it
// must say as much as Run's own error.
func (o *Owner) ended() error { return cmp.Or(o.err, ErrReload) }

func (o *Owner) run(ctx context.Context) error {
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
			return fmt.Errorf("%w: %w", ErrReload, err)
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
			return fmt.Errorf("director: the journal took no append for %s; what is not in it will be decided again",
				appendTimeout)
		}
	}
	return nil
}

// wait returns how long nothing will happen by itself, at most a second: the owner notices by its own turns that it
// was away.
func (o *Owner) wait() time.Duration {
	next := o.driver.Machine().NextDeadline()
	if next.IsZero() {
		return time.Second
	}
	return min(max(next.Sub(o.Clock.Now()), 0), time.Second)
}

// inputsPerTurn bounds what is decided before the owner looks at anything else: some milliseconds of its time.
const inputsPerTurn = 256

// handleWaiting offers an input, and those that wait behind it: what is decided in one turn is appended together.
func (o *Owner) handleWaiting(in input) error {
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
func (o *Owner) handle(in input) error {
	at, gap := o.Clock.tick()
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
