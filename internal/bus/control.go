package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"retake/internal/bus/wire"
)

// answerTimeout bounds a request whose context has no deadline.
const answerTimeout = 5 * time.Second

// noAnswerErrors are NATS's ways to say that nobody answered.
var noAnswerErrors = []error{
	context.DeadlineExceeded, context.Canceled, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrConnectionClosed,
	nats.ErrDisconnected, nats.ErrReconnectBufExceeded, nats.ErrConnectionReconnecting, nats.ErrStaleConnection,
	jetstream.ErrNoStreamResponse, nats.ErrInvalidConnection,
}

// Send sends a command to a worker: a wire.Stop, Pause, Resume, SyncRequired. It does not wait for the worker
// to get it.
func (b *Bus) Send(ctx context.Context, worker string, p wire.Payload) error {
	if err := errors.Join(wire.CheckID(worker), ctx.Err()); err != nil {
		return err
	}
	data, err := b.encode(p)
	if err != nil {
		return err
	}
	if err := b.nc.PublishMsg(traced(b.subjects.Control(worker), data, b.traceParent(worker))); err != nil {
		return fmt.Errorf("bus: send %s to %s: %w", p.MessageType(), worker, err)
	}
	return nil
}

// Probe asks a worker for a heartbeat. ErrNoAnswer: not in time (5 s, if ctx has no deadline), or nobody listens. An
// answer that cannot be read is a dead letter and a *wire.Malformed.
func (b *Bus) Probe(ctx context.Context, worker string) (wire.Heartbeat, error) {
	if err := wire.CheckID(worker); err != nil {
		return wire.Heartbeat{}, err
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	data, err := b.encode(wire.Probe{ProbeID: fmt.Sprintf("%s/%d", worker, b.seq.Load()+1)})
	if err != nil {
		return wire.Heartbeat{}, err
	}
	m, err := b.nc.RequestMsgWithContext(ctx, traced(b.subjects.Control(worker), data, b.traceParent(worker)))
	if err != nil {
		return wire.Heartbeat{}, noAnswer(err)
	}
	// The answer is held against the subject on which the worker's own heartbeats come.
	subject := b.subjects.Worker(worker, wire.ChannelHeartbeat)
	_, e, err := b.read(subject, m.Data)
	if err != nil {
		b.dead.core(worker, err, subject, m.Data)
		return wire.Heartbeat{}, err
	}
	return *e.Payload.(*wire.Heartbeat), nil // read has checked it
}

// traced is a message that says to which span it belongs; parent is empty where nothing is traced.
func traced(subject string, data []byte, parent string) *nats.Msg {
	m := &nats.Msg{Subject: subject, Data: data}
	if parent != "" {
		// in lower case, as W3C has it: Set would not change that either
		m.Header = nats.Header{wire.TraceHeader: {parent}}
	}
	return m
}

// traceParent is the span of an attempt; empty: nothing is traced.
func (b *Bus) traceParent(worker string) string {
	if b.options.TraceParent == nil {
		return ""
	}
	return b.options.TraceParent(worker)
}

func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, answerTimeout)
}

// noAnswer is the error of a request that failed; nil stays nil.
func noAnswer(err error) error {
	switch {
	case err == nil:
		return nil
	case temporary(err):
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return fmt.Errorf("bus: %w", err)
}

// PublishSnapshot publishes the state of the project to everybody who subscribes.
func (b *Bus) PublishSnapshot(s wire.Snapshot) error {
	data, err := b.encode(s)
	if err != nil {
		return err
	}
	if err := b.stored.Publish(b.subjects.Snapshot(), data); err != nil {
		return fmt.Errorf("bus: publish snapshot: %w", err)
	}
	return nil
}

// ServeSnapshot answers requests on the snapshot subject, as a NATS service that tools can discover, until ctx
// ends; it returns nil then. latest must not block. The service has a connection of its own, which ends with
// it: its subscriptions, if they were drained while the server is away, would be there again when it is back,
// with nobody behind them.
func (b *Bus) ServeSnapshot(ctx context.Context, latest func() wire.Snapshot) error {
	nc, err := b.signIn(b.options.Keys.Reports, nats.RetryOnFailedConnect(true))
	if err != nil {
		return fmt.Errorf("bus: snapshot service: %w", err)
	}
	defer nc.Close()
	service, err := micro.AddService(nc, micro.Config{
		Name: "retake-director", Version: "1.0.0", Description: "Retake director of fleet " + b.options.Fleet,
		Metadata: map[string]string{"fleet": b.options.Fleet, "protocol_version": wire.ProtocolVersion},
	})
	if err == nil {
		err = service.AddEndpoint("default", micro.HandlerFunc(func(r micro.Request) {
			if r.Reply() != "" { // else it is PublishSnapshot's own message
				b.respond(r.Subject(), func(data []byte) error { return r.Respond(data) }, latest())
			}
		}), micro.WithEndpointSubject(b.subjects.Snapshot()))
	}
	if err != nil {
		return fmt.Errorf("bus: snapshot service: %w", err)
	}
	<-ctx.Done()
	return nil
}

// respond answers a request on a subject; nil: not at all.
func (b *Bus) respond(subject string, send func([]byte) error, p wire.Payload) {
	if p == nil {
		return
	}
	data, err := b.encode(p)
	if err == nil {
		err = send(data)
	}
	if err != nil {
		b.log.Warn("bus answer", zap.String("subject", subject), zap.Error(err))
	}
}
