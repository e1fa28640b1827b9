package bus

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/wire"
)

// BudgetHandler hands out leases. Its methods are called one at a time and must not block. The bus has verified
// that worker is the sender.
type BudgetHandler interface {
	Acquire(worker string, a wire.BudgetAcquire) wire.BudgetGrant
	Release(worker string, r wire.BudgetRelease)
	Report(worker string, r wire.BudgetReport)
}

// ServeBudget answers requests for leases until ctx is done, and then returns nil. The subject identifies the worker,
// and only that worker may publish on it. Unreadable requests become dead letters and are not answered. The worker then
// applies its local limits.
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
		var answer wire.BudgetGrant // empty: acknowledged
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

// readBudget reads a worker's request. Every error is a *wire.Malformed.
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
