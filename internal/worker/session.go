package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"
)

// Bus is the worker's view of the agent bus. All methods are safe for concurrent use.
type Bus interface {
	// Hello requests admission. It returns the answer (*wire.Welcome or *wire.Incompatibility).
	Hello(context.Context, wire.Hello) (wire.Payload, error)
	// Heartbeat and Progress send soft state without blocking. Callers need not retry after an error.
	Heartbeat(wire.Heartbeat) error
	Progress(wire.TaskProgress) error
	// Report sends a final report and returns once it has been stored. It is idempotent.
	Report(context.Context, wire.Payload) error
	// AskBudget asks the director about a lease. An error means that the director did not answer.
	AskBudget(context.Context, wire.Payload) (wire.BudgetGrant, error)
	// Chunk, PutChunk and SaveCheckpoint transfer a travelling checkout. Any error other than a *bus.RefusedError is
	// transient.
	Chunk(ctx context.Context, name string) ([]byte, error)
	PutChunk(context.Context, []byte) error
	SaveCheckpoint(context.Context, wire.Checkpoint) (missing []string, err error)
	// Connected reports whether the bus is usable now. Reconnects counts the reconnections, and increases before
	// Connected becomes true again.
	Connected() bool
	Reconnects() uint64
	Close()
}

// Listener contains callbacks for events on the bus. They must not block.
type Listener struct {
	Control     func(wire.Payload)    // control messages such as *wire.Stop
	Alive       func() wire.Heartbeat // returns the answer to a probe
	Reconnected func()
}

// Dialer opens the bus for a plan. Its errors are transient.
type Dialer func(*wire.Plan, Listener) (Bus, error)

// DialBus opens the real agent bus.
func DialBus(p *wire.Plan, l Listener) (Bus, error) {
	c, err := bus.Dial(bus.ClientOptions{
		URL: p.Bus.URL, JWT: p.Bus.JWT, Seed: p.Bus.Seed, CA: p.Bus.CA, Prefix: p.Bus.Prefix,
		MaxMessageBytes: p.Bus.MaxMessageBytes,
		WorkerID:        p.WorkerID, RunID: p.RunID, Key: p.SignKey, TraceParent: p.TraceParent,
		OnReconnect: l.Reconnected,
	})
	if err != nil {
		return nil, err
	}
	err = c.OnControl(func(cmd bus.Command) {
		if _, probe := cmd.Payload.(*wire.Probe); probe {
			_ = cmd.Reply(l.Alive()) // the director repeats unanswered probes
			return
		}
		l.Control(cmd.Payload)
	})
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Backoff after bus errors, with a jitter of ±50 %. The first delay is short, because an embedded bus is available
// within a second after its director restarts. The jitter spreads the reconnections of workers that lost the bus at the
// same time.
const (
	backoffInitial = 200 * time.Millisecond
	backoffMax     = 5 * time.Second
	callTimeout    = 5 * time.Second // limit for one hello or report
)

// errDisconnected means that the bus is currently unreachable.
var errDisconnected = errors.New("worker: the bus is unreachable")

// errRefused means that the director refuses this worker.
var errRefused = errors.New("worker: hello refused")

// session maintains the worker's connection to the bus. It sends a hello first, then reports in order, and another
// hello after every reconnection before the next report. Only the goroutine of run uses it.
type session struct {
	plan     *wire.Plan
	dial     Dialer
	listener Listener
	log      *zap.Logger

	outbox      chan wire.Payload // has capacity for all reports
	reconnected chan struct{}     // holds one token after the bus has reconnected
	welcomed    chan<- admission
	delivered   chan<- struct{}
	helloAt     uint64 // Reconnects at the last hello; Reconnects increases before reconnected gets its token
}

// admission is the answer to a hello, or the reason why the worker was not admitted.
type admission struct {
	bus     Bus
	welcome *wire.Welcome
	err     error
}

// run dials, says hello and sends reports from the outbox until ctx is done or the director refuses the worker.
func (s *session) run(ctx context.Context) {
	bus := s.open(ctx)
	if bus == nil {
		return
	}
	defer bus.Close()
	if !s.hello(ctx, bus) {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.reconnected:
			if bus.Reconnects() != s.helloAt && !s.hello(ctx, bus) {
				return
			}
		case report := <-s.outbox:
			if !s.deliver(ctx, bus, report) {
				return
			}
		}
	}
}

func (s *session) open(ctx context.Context) (bus Bus) {
	s.retry(ctx, "could not reach bus", func(context.Context) (err error) {
		bus, err = s.dial(s.plan, s.listener)
		return err
	})
	return bus
}

// hello repeats the hello until an answer arrives. It returns false if the director refused the hello or ctx ended.
func (s *session) hello(ctx context.Context, bus Bus) bool {
	var a admission
	answered := s.retry(ctx, "director did not answer hello", func(ctx context.Context) error {
		s.helloAt = bus.Reconnects()
		reply, err := bus.Hello(ctx, helloOf(s.plan))
		if err != nil {
			return err
		}
		a = admit(s.plan, reply)
		return nil
	})
	if !answered {
		return false
	}
	a.bus = bus
	select {
	case s.welcomed <- a:
	case <-ctx.Done():
		return false
	}
	return a.err == nil
}

// admit evaluates the answer to a hello. Only a welcome for this attempt admits the worker.
func admit(p *wire.Plan, reply wire.Payload) admission {
	switch v := reply.(type) {
	case *wire.Welcome:
		if v.AttemptID != p.AttemptID {
			return admission{err: fmt.Errorf("%w: the welcome is for attempt %q", errRefused, v.AttemptID)}
		}
		if no := wire.CheckVersion(v.ProtocolVersion); no != nil {
			return admission{err: fmt.Errorf("%w: the director speaks protocol %s, this worker %s", errRefused,
				v.ProtocolVersion, wire.ProtocolVersion)}
		}
		return admission{welcome: v}
	case *wire.Incompatibility:
		return admission{err: fmt.Errorf("%w: %s (the director speaks protocol %s, this worker %s): %s",
			errRefused, v.Reason, v.ExpectedProtocolVersion, v.SenderProtocolVersion, v.RequiredAction)}
	default:
		return admission{err: fmt.Errorf("%w: unexpected response of type %T", errRefused, reply)}
	}
}

// deliver sends one report until the director acknowledges it. It returns false if the director refused a hello or ctx
// ended.
func (s *session) deliver(ctx context.Context, bus Bus, report wire.Payload) bool {
	refused := false
	sent := s.retry(ctx, "could not deliver report", func(limited context.Context) error {
		if !bus.Connected() { // otherwise, after a reconnection, the report could precede its hello
			return errDisconnected
		}
		if bus.Reconnects() != s.helloAt {
			if refused = !s.hello(ctx, bus); refused { // uses ctx, because hello may take longer than callTimeout
				return nil
			}
			var cancel context.CancelFunc
			limited, cancel = context.WithTimeout(ctx, callTimeout)
			defer cancel()
		}
		err := bus.Report(limited, report)
		if rejected(err) {
			s.log.Error("director rejected report; giving up on it", zap.Error(err))
			return nil
		}
		return err
	})
	if !sent || refused {
		return false
	}
	select {
	case s.delivered <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// rejected reports whether the director rejects a report permanently.
func rejected(err error) bool { return errors.Is(err, bus.ErrRejected) }

// retry calls do, each time with a timeout of callTimeout, until do succeeds. After a reconnection it calls do
// immediately. It returns false if ctx ended. It logs the first failure and the recovery.
func (s *session) retry(ctx context.Context, trouble string, do func(context.Context) error) bool {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = backoffInitial, backoffMax
	for try := 1; ; try++ {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		err := do(limited)
		cancel()
		switch {
		case err == nil && try > 1:
			s.log.Info("bus is reachable again", zap.Int("tries", try))
			return true
		case err == nil:
			return true
		case ctx.Err() != nil:
			return false
		case try == 1:
			s.log.Warn(trouble+"; retrying", zap.Error(err))
		}
		select {
		case <-time.After(wait.NextBackOff()):
		case <-s.reconnected:
			wait.Reset()
		case <-ctx.Done():
			return false
		}
	}
}

func helloOf(p *wire.Plan) wire.Hello {
	return wire.Hello{
		ProtocolVersion: wire.ProtocolVersion, Capabilities: []string{"probe", "stop", "pause", "sync"},
		Worker: wire.HelloWorker{
			WorkerID: p.WorkerID, AttemptID: p.AttemptID, ContainerID: containerID(), ImageTag: p.ImageTag,
			WorktreePath: p.Workdir, BranchName: p.Branch,
		},
		Repo: &wire.HelloRepo{MainSHASeen: p.BaseSHA},
	}
}
