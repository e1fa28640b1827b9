package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"retake/internal/bus/wire"
)

// BudgetHandler hands out the leases. Its methods are called one at a time and must not block. The worker is who the
// bus knows to have asked.
type BudgetHandler interface {
	Acquire(worker string, a wire.BudgetAcquire) wire.BudgetGrant
	Release(worker string, r wire.BudgetRelease)
	Report(worker string, r wire.BudgetReport)
}

// ServeBudget answers requests for leases, as a NATS service, until ctx ends; it returns nil then. What cannot be read is
// a dead letter and gets no answer: the worker's own limiter rules.
//
// A lease subject names no worker, so that the asker is told by the reply subject: below its own inbox, and on the
// embedded server below a token there that only the holder of its password knows.
func (b *Bus) ServeBudget(ctx context.Context, h BudgetHandler) error {
	service, err := micro.AddService(b.nc, micro.Config{
		Name: "retake-budget", Version: "1.0.0", Description: "Leases on models, of fleet " + b.options.Fleet,
		Metadata: map[string]string{"fleet": b.options.Fleet, "protocol_version": wire.ProtocolVersion},
	})
	if err != nil {
		return fmt.Errorf("bus: serve budget: %w", err)
	}
	var one sync.Mutex
	group := service.AddGroup(b.options.Prefix + ".budget")
	for _, op := range []string{wire.BudgetOpAcquire, wire.BudgetOpRelease, wire.BudgetOpReport} {
		err = errors.Join(err, group.AddEndpoint(op, micro.HandlerFunc(func(r micro.Request) {
			one.Lock()
			defer one.Unlock()
			b.answerBudget(r, op, h)
		})))
	}
	if err == nil {
		<-ctx.Done()
	}
	if stop := service.Stop(); stop != nil && !errors.Is(stop, nats.ErrConnectionClosed) {
		b.log.Warn("bus service", zap.Error(stop))
	}
	if err != nil {
		return fmt.Errorf("bus: serve budget: %w", err)
	}
	return nil
}

func (b *Bus) answerBudget(r micro.Request, op string, h BudgetHandler) {
	worker, p, err := b.readBudget(r, op)
	if err != nil {
		b.dead.core(err, r.Subject(), r.Data())
		return
	}
	var answer wire.BudgetGrant // empty: heard
	switch v := p.(type) {
	case *wire.BudgetAcquire:
		answer = h.Acquire(worker, *v)
	case *wire.BudgetRelease:
		h.Release(worker, *v)
	case *wire.BudgetReport:
		h.Report(worker, *v)
	}
	data, err := b.encode(answer)
	if err == nil {
		err = r.Respond(data)
	}
	if err != nil {
		b.log.Warn("bus answer", zap.String("subject", r.Subject()), zap.Error(err))
	}
}

// readBudget finds out who asks, then for what.
func (b *Bus) readBudget(r micro.Request, op string) (worker string, p wire.Payload, err error) {
	crossed := b.crossed(r.Reply())
	if !crossed {
		if worker, err = b.asker(r.Reply()); err != nil {
			return "", nil, err
		}
	}
	if err = wire.CheckSize(r.Data(), b.options.MaxMessageBytes); err != nil {
		return worker, nil, err
	}
	e, err := wire.Decode(r.Data())
	if err != nil {
		return worker, nil, err
	}
	if crossed { // who is who in the workers' account is that server's business
		worker = e.Sender.ID
		err = wire.CheckID(worker)
	}
	return worker, e.Payload, errors.Join(err, wire.CheckBudget(e, worker, op))
}

// asker reads the worker out of a reply subject, and checks that no other could have written it.
func (b *Bus) asker(reply string) (string, error) {
	rest, _ := strings.CutPrefix(reply, inboxPrefix)
	worker, _, _ := strings.Cut(rest, ".")
	if err := ownInbox(worker, reply); err != nil || wire.CheckID(worker) != nil {
		return "", &wire.Malformed{Cause: wire.CauseForeignSender, Detail: "reply subject: want one below the worker's own inbox"}
	}
	if b.server != nil && !strings.HasPrefix(reply, provenInbox(worker, b.server.auth.derive("worker", worker))+".") {
		return "", &wire.Malformed{Cause: wire.CauseForeignSender, Detail: "reply subject: it does not prove that " + worker + " asks"}
	}
	return worker, nil
}
