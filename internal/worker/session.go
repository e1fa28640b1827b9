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

// Bus is what the worker needs of the agent bus. All methods may be called at the same time.
type Bus interface {
	// Hello asks to be admitted. It returns the answer (*wire.Welcome or *wire.Incompatibility).
	Hello(context.Context, wire.Hello) (wire.Payload, error)
	// Heartbeat and Progress send soft state and do not block: an error is no reason to try again.
	Heartbeat(wire.Heartbeat) error
	Progress(wire.TaskProgress) error
	// Report sends a final report and returns after it was stored. Sending it twice is harmless.
	Report(context.Context, wire.Payload) error
	// AskBudget asks the director about a lease. An error means that it did not answer.
	AskBudget(context.Context, wire.Payload) (wire.BudgetGrant, error)
	// Chunk, PutChunk and SaveCheckpoint are for a checkout that travels. An error is a *bus.RefusedError, or may pass.
	Chunk(ctx context.Context, name string) ([]byte, error)
	PutChunk(context.Context, []byte) error
	SaveCheckpoint(context.Context, wire.Checkpoint) (missing []string, err error)
	// Connected reports whether anything can be sent at this moment; Reconnects counts how often the connection
	// came back so far, before it is connected again.
	Connected() bool
	Reconnects() uint64
	Close()
}

// Listener is what the bus calls back. None of it blocks.
type Listener struct {
	Control     func(wire.Payload)    // *wire.Stop and the like
	Alive       func() wire.Heartbeat // the answer to a probe
	Reconnected func()
}

// Dialer opens the bus for a plan. An error is worth another try.
type Dialer func(*wire.Plan, Listener) (Bus, error)

// DialBus opens the agent bus: the Dialer of the real program.
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
			_ = cmd.Reply(l.Alive()) // an answer that is lost is asked for again
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

// Backoff towards the bus: 0.2 s to 5 s, each ±50 %. An embedded bus is back within a second of its director; and
// three workers that lost it together must not come back together.
const (
	backoffInitial = 200 * time.Millisecond
	backoffMax     = 5 * time.Second
	callTimeout    = 5 * time.Second // of one hello, one report
)

// errDisconnected: the bus cannot be used at this moment.
var errDisconnected = errors.New("worker: the bus is away")

// errRefused: the director refuses this worker.
var errRefused = errors.New("worker: hello refused")

// session holds the worker's place on the bus: hello first, then the reports in order, and hello again after every
// reconnect before the next report. It belongs to one goroutine, run.
type session struct {
	plan     *wire.Plan
	dial     Dialer
	listener Listener
	log      *zap.Logger

	outbox      chan wire.Payload // room for all reports that are ever made
	reconnected chan struct{}     // one token
	welcomed    chan<- admission
	delivered   chan<- struct{}
	helloAt     uint64 // Reconnects at the last hello. The token may come later than the connection; the count does not
}

// admission is an answered hello, or why there will never be one.
type admission struct {
	bus     Bus
	welcome *wire.Welcome
	err     error
}

// run dials, says hello and sends what is put into the outbox until ctx ends or the worker is refused.
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
	s.retry(ctx, "the bus cannot be reached", func(context.Context) (err error) {
		bus, err = s.dial(s.plan, s.listener)
		return err
	})
	return bus
}

// hello asks until it is answered. false: refused, or ctx ended.
func (s *session) hello(ctx context.Context, bus Bus) bool {
	var a admission
	answered := s.retry(ctx, "nobody answers the hello", func(ctx context.Context) error {
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

// admit reads the answer to a hello: only a welcome for this very attempt admits.
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
		return admission{err: fmt.Errorf("%w: answered with a %T", errRefused, reply)}
	}
}

// deliver sends one report until it was acknowledged. false: refused at a hello in between, or ctx ended.
func (s *session) deliver(ctx context.Context, bus Bus, report wire.Payload) bool {
	refused := false
	sent := s.retry(ctx, "a report is not acknowledged yet", func(limited context.Context) error {
		if !bus.Connected() { // it might come back between the next line and the report, which no hello would precede
			return errDisconnected
		}
		if bus.Reconnects() != s.helloAt {
			if refused = !s.hello(ctx, bus); refused { // for as long as it takes
				return nil
			}
			var cancel context.CancelFunc
			limited, cancel = context.WithTimeout(ctx, callTimeout)
			defer cancel()
		}
		err := bus.Report(limited, report)
		if rejected(err) {
			s.log.Error("the director takes no such report; it is given up", zap.Error(err))
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

// rejected reports whether the director will never take a report.
func rejected(err error) bool { return errors.Is(err, bus.ErrRejected) }

// retry calls do, with callTimeout each, until it succeeds, and at once when the bus is back. false: ctx ended
// before. Trouble is logged when it begins and when it is over, not in between.
func (s *session) retry(ctx context.Context, trouble string, do func(context.Context) error) bool {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = backoffInitial, backoffMax
	for try := 1; ; try++ {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		err := do(limited)
		cancel()
		switch {
		case err == nil && try > 1:
			s.log.Info("the bus is back", zap.Int("tries", try))
			return true
		case err == nil:
			return true
		case ctx.Err() != nil:
			return false
		case try == 1:
			s.log.Warn(trouble+"; trying on", zap.Error(err))
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
