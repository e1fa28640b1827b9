package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"retake/internal/bus/link"
	"retake/internal/bus/wire"
)

// Send sends a command to a worker: a wire.Stop, Pause, Resume or SyncRequired. It does not wait for delivery.
func (b *Bus) Send(ctx context.Context, worker string, p wire.Payload) error {
	if err := errors.Join(wire.CheckID(worker), ctx.Err()); err != nil {
		return err
	}
	data, err := b.writer.Encode(p)
	if err != nil {
		return err
	}
	if err := b.nc.PublishMsg(b.writer.To(worker, b.subjects.Control(worker), data)); err != nil {
		return fmt.Errorf("bus: send %s to %s: %w", p.MessageType(), worker, err)
	}
	return nil
}

// ErrNotSent means that the connection was lost before the answer to a probe arrived, so the worker may not have
// received the probe. The error also matches ErrNoAnswer.
var ErrNotSent = errors.New("bus: connection lost")

// probeAgain is the pause between probes to a worker that is not subscribed. The worker may be reconnecting.
const probeAgain = 100 * time.Millisecond

// Probe asks a worker for a heartbeat. ErrNoAnswer means that the worker did not answer in time (5 s if ctx has no
// deadline) or is not listening. If the answer is unreadable, it becomes a dead letter, and Probe returns a
// *wire.Malformed.
func (b *Bus) Probe(ctx context.Context, worker string) (wire.Heartbeat, error) {
	if err := wire.CheckID(worker); err != nil {
		return wire.Heartbeat{}, err
	}
	ctx, cancel := link.WithDeadline(ctx)
	defer cancel()
	data, err := b.writer.Encode(wire.Probe{ProbeID: fmt.Sprintf("%s/%d", worker, b.writer.Next())})
	if err != nil {
		return wire.Heartbeat{}, err
	}
	connected, connections := b.nc.IsConnected(), b.nc.Stats().Reconnects
	m, err := b.nc.RequestMsgWithContext(ctx, b.writer.To(worker, b.subjects.Control(worker), data))
	for errors.Is(err, nats.ErrNoResponders) && link.Pause(ctx, probeAgain) {
		m, err = b.nc.RequestMsgWithContext(ctx, b.writer.To(worker, b.subjects.Control(worker), data))
	}
	if err != nil {
		if !connected || !b.nc.IsConnected() || b.nc.Stats().Reconnects != connections {
			err = fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		return wire.Heartbeat{}, link.NoAnswer(err)
	}
	// The answer is a heartbeat, so readWorker checks it against the heartbeat subject.
	subject := b.subjects.Worker(worker, wire.ChannelHeartbeat)
	_, e, err := readWorker(b.subjects, subject, m.Data)
	if err != nil {
		b.dead.core(worker, err, subject, m.Data)
		return wire.Heartbeat{}, err
	}
	return *e.Payload.(*wire.Heartbeat), nil // readWorker has checked the type
}

// PublishSnapshot publishes the state of the project to all subscribers.
func (b *Bus) PublishSnapshot(s wire.Snapshot) error {
	data, err := b.writer.Encode(s)
	if err != nil {
		return err
	}
	if err := b.stored.Publish(b.subjects.Snapshot(), data); err != nil {
		return fmt.Errorf("bus: publish snapshot: %w", err)
	}
	return nil
}

// ServeSnapshot answers requests on the snapshot subject, as a NATS service that tools can discover. It returns nil
// when ctx is done. latest must not block. The service has its own connection, because on a shared connection the NATS
// client would restore subscriptions that were drained during an outage, but without their handlers.
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
			if r.Reply() != "" { // PublishSnapshot's messages have no reply subject
				b.writer.Respond(r.Subject(), func(data []byte) error { return r.Respond(data) }, latest())
			}
		}), micro.WithEndpointSubject(b.subjects.Snapshot()))
	}
	if err != nil {
		return fmt.Errorf("bus: snapshot service: %w", err)
	}
	<-ctx.Done()
	return nil
}
