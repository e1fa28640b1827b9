package bus

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/wire"
)

// BudgetHandler hands out leases. The bus calls its methods one at a time, after verifying that worker is the sender.
// The methods must not block.
type BudgetHandler interface {
	Acquire(worker string, a wire.BudgetAcquire) wire.BudgetGrant
	Release(worker string, r wire.BudgetRelease)
	Report(worker string, r wire.BudgetReport)
}

// ServeBudget answers requests for leases until ctx is done, and then returns nil. Unreadable requests become dead
// letters and are not answered, so the worker falls back to its local limits.
func (b *Bus) ServeBudget(ctx context.Context, h BudgetHandler) error {
	var one sync.Mutex
	return b.intake.serve(ctx, classBudget, func(g *gate, m *nats.Msg) {
		p, err := b.readBudget(g.worker, m)
		if err != nil {
			b.dead.core(g.worker, err, m.Subject, m.Data)
			return
		}
		one.Lock()
		defer one.Unlock()
		var answer wire.BudgetGrant // an empty answer acknowledges the request
		switch v := p.(type) {
		case *wire.BudgetAcquire:
			answer = h.Acquire(g.worker, *v)
		case *wire.BudgetRelease:
			h.Release(g.worker, *v)
		case *wire.BudgetReport:
			h.Report(g.worker, *v)
		}
		b.writer.Respond(m.Subject, m.Respond, answer)
	})
}

// readBudget decodes a worker's request and checks its sender. Every error is a *wire.Malformed.
func (b *Bus) readBudget(worker string, m *nats.Msg) (wire.Payload, error) {
	if err := ownInbox(worker, m.Reply); err != nil {
		return nil, err
	}
	if err := wire.CheckSize(m.Data); err != nil {
		return nil, err
	}
	e, err := wire.Decode(m.Data)
	if err != nil {
		return nil, err
	}
	return e.Payload, wire.CheckBudget(e, worker, b.subjects.BudgetOp(m.Subject))
}
