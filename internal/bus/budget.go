package bus

import (
	"context"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/micro"

	"retake/internal/bus/wire"
)

// BudgetHandler hands out the leases. Its methods are called one at a time and must not block. The worker is the
// one that asked, as the bus has verified.
type BudgetHandler interface {
	Acquire(worker string, a wire.BudgetAcquire) wire.BudgetGrant
	Release(worker string, r wire.BudgetRelease)
	Report(worker string, r wire.BudgetReport)
}

// ServeBudget answers requests for leases, as a NATS service, until ctx ends; it returns nil then. What cannot be read is
// a dead letter and gets no answer: the worker then applies its own limits.
//
// A lease subject names no worker, so the reply subject names the asker: below its own inbox and a token there that only the
// holder of its credential knows.
func (b *Bus) ServeBudget(ctx context.Context, h BudgetHandler) error {
	endpoints := map[string]string{}
	for _, op := range []string{wire.BudgetOpAcquire, wire.BudgetOpRelease, wire.BudgetOpReport} {
		endpoints[op] = b.subjects.Budget(op)
	}
	var one sync.Mutex
	return b.serve(ctx, "retake-budget", "Leases on models, of fleet "+b.options.Fleet, endpoints, func(op string, r micro.Request) {
		one.Lock()
		defer one.Unlock()
		b.answerBudget(r, op, h)
	})
}

func (b *Bus) answerBudget(r micro.Request, op string, h BudgetHandler) {
	worker, p, err := b.readBudget(r, op)
	if err != nil {
		b.dead.core(err, r.Subject(), r.Data())
		return
	}
	var answer wire.BudgetGrant // empty: acknowledged
	switch v := p.(type) {
	case *wire.BudgetAcquire:
		answer = h.Acquire(worker, *v)
	case *wire.BudgetRelease:
		h.Release(worker, *v)
	case *wire.BudgetReport:
		h.Report(worker, *v)
	}
	b.respond(r.Subject(), func(data []byte) error { return r.Respond(data) }, answer)
}

// readBudget reads who asks, then for what.
func (b *Bus) readBudget(r micro.Request, op string) (worker string, p wire.Payload, err error) {
	if worker, err = b.asker(r.Reply()); err != nil {
		return "", nil, err
	}
	if err = wire.CheckSize(r.Data(), b.options.MaxMessageBytes); err != nil {
		return worker, nil, err
	}
	e, err := wire.Decode(r.Data())
	if err != nil {
		return worker, nil, err
	}
	return worker, e.Payload, wire.CheckBudget(e, worker, op)
}

// asker reads the worker out of a reply subject, and checks that no other could have written it.
func (b *Bus) asker(reply string) (string, error) {
	rest, _ := strings.CutPrefix(reply, wire.InboxPrefix)
	worker, _, _ := strings.Cut(rest, ".")
	if err := ownInbox(worker, reply); err != nil || wire.CheckID(worker) != nil {
		return "", &wire.Malformed{Cause: wire.CauseForeignSender, Detail: "reply subject: want one below the worker's own inbox"}
	}
	seed, err := b.workers.seed(worker)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(reply, wire.ProvenInbox(worker, seed)+".") {
		return "", &wire.Malformed{Cause: wire.CauseForeignSender, Detail: "reply subject: it does not prove that " + worker + " asks"}
	}
	return worker, nil
}
