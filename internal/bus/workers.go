package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"retake/internal/bus/wire"
)

// coreBuffer bounds core messages that wait for their reader; what is over it is lost, as core messages may be.
const coreBuffer = 1024

// listen hands core messages to handle, one after the other, until ctx ends; it returns nil then. Subscriptions outlive
// a server that goes away.
func (b *Bus) listen(ctx context.Context, handle func(*nats.Msg), subjects ...string) error {
	messages := make(chan *nats.Msg, coreBuffer)
	for _, subject := range subjects {
		sub, err := b.nc.ChanSubscribe(subject, messages)
		if err != nil {
			return fmt.Errorf("bus: listen on %s: %w", subject, err)
		}
		defer b.drop(sub)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-messages:
			handle(m)
		}
	}
}

func (b *Bus) drop(sub *nats.Subscription) {
	if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		b.log.Warn("bus unsubscribe", zap.Error(err))
	}
}

// read decodes what came on a worker's subject and holds it against that subject. Every error is a *wire.Malformed.
func (b *Bus) read(subject string, data []byte) (worker string, e wire.Envelope, err error) {
	worker, channel, ok := b.subjects.ParseWorker(subject)
	if !ok {
		return "", e, &wire.Malformed{Cause: wire.CauseWrongSubject, Detail: fmt.Sprintf("%.200q is not a worker's subject", subject)}
	}
	if err := wire.CheckSize(data, b.options.MaxMessageBytes); err != nil {
		return worker, e, err
	}
	if e, err = wire.Decode(data); err != nil {
		return worker, e, err
	}
	return worker, e, wire.CheckSender(e, worker, channel)
}

// WatchWorkers hands out heartbeats and progress, one at a time, until ctx ends; it returns nil then. What cannot be
// read goes to the dead letters.
func (b *Bus) WatchWorkers(ctx context.Context, onHeartbeat func(worker string, h wire.Heartbeat), onProgress func(worker string, p wire.TaskProgress)) error {
	return b.listen(ctx, func(m *nats.Msg) {
		worker, e, err := b.read(m.Subject, m.Data)
		if err != nil {
			b.dead.core(err, m.Subject, m.Data)
			return
		}
		switch p := e.Payload.(type) {
		case *wire.Heartbeat:
			onHeartbeat(worker, *p)
		case *wire.TaskProgress:
			onProgress(worker, *p)
		}
	}, b.subjects.AllWorkers(wire.ChannelHeartbeat), b.subjects.AllWorkers(wire.ChannelProgress))
}

// ServeHello answers hellos with what answer returns: a welcome, an incompatibility, or nil for no answer (the worker
// asks again). It blocks until ctx ends and returns nil then. A hello that cannot be read is a dead letter; if it is of
// another major version, its sender is answered with an incompatibility.
func (b *Bus) ServeHello(ctx context.Context, answer func(worker string, h wire.Hello) wire.Payload) error {
	return b.listen(ctx, func(m *nats.Msg) {
		worker, e, err := b.read(m.Subject, m.Data)
		if err == nil {
			err = ownInbox(worker, m.Reply)
		}
		if err == nil {
			b.respond(m.Subject, m.Respond, answer(worker, *e.Payload.(*wire.Hello))) // read has checked that a hello's subject carries a hello
			return
		}
		b.dead.core(err, m.Subject, m.Data)
		if reasonOf(err).Cause == wire.CauseUnknownVersion && ownInbox(worker, m.Reply) == nil {
			b.respond(m.Subject, m.Respond, wire.Incompatibility{
				Reason: "major_version", ExpectedProtocolVersion: wire.ProtocolVersion, RequiredAction: "sync_main_and_restart",
			})
		}
	}, b.subjects.AllWorkers(wire.ChannelHello))
}

// ownInbox makes sure that an answer goes to nobody but the worker that asked: the reply subject is the asker's choice,
// and the director may publish where a worker may not.
func ownInbox(worker, reply string) error {
	if strings.HasPrefix(reply, wire.Inbox(worker)+".") {
		return nil
	}
	return &wire.Malformed{Cause: wire.CauseForeignSender, Detail: fmt.Sprintf("reply subject: want one below %s, got %.200q", wire.Inbox(worker), reply)}
}
