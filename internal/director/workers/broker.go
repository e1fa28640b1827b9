package workers

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/budget"
	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/loop"
	"retake/internal/fsm"
	"retake/internal/recovery/retryafter"
)

// Broker grants model leases to all workers of the fleet. The leases are lost when the director restarts. Until workers
// get new ones, each worker limits its own calls. Cooldowns survive a restart, because the machine journals them.
// Create it with NewBroker.
type Broker struct {
	ctx   context.Context // the session's context
	owner *loop.Owner
	log   *zap.Logger

	mu   sync.Mutex
	pool *budget.Pool
}

var _ bus.BudgetHandler = (*Broker)(nil)

// NewBroker returns a broker for a session of the given run. It starts with the cooldowns of the owner's machine.
func NewBroker(ctx context.Context, owner *loop.Owner, runID string, l budget.Limits, log *zap.Logger) *Broker {
	b := &Broker{ctx: ctx, owner: owner, log: log, pool: budget.New(runID, l)}
	b.pool.Expire(b.now())
	for _, c := range owner.Driver().Machine().Cooldowns() {
		b.pool.Close(c.Resource, c.Until)
	}
	return b
}

func (b *Broker) now() time.Time { return b.owner.Clock.Now() }

// Limit sets the limits for future leases.
func (b *Broker) Limit(l budget.Limits) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pool.Limit(l)
}

// Acquire grants a lease, or returns how long to wait.
func (b *Broker) Acquire(worker string, a wire.BudgetAcquire) wire.BudgetGrant {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pool.Acquire(b.now(), a.Resource, worker).Message()
}

// Release ends a lease.
func (b *Broker) Release(worker string, r wire.BudgetRelease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pool.Release(b.now(), r.GrantID, worker)
}

// Report records the result of a call, and reports a limit to the machine. The machine decides how long the resource
// stays closed for other workers.
func (b *Broker) Report(worker string, r wire.BudgetReport) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, status, wait := b.now(), budget.Status(r.Status), budget.RetryAfter(r)
	// headers may report an exhausted limit with any status
	if limit, ok := retryafter.ReadLimit(r.Headers, now); ok && limit.Wait(now) > 0 {
		status, wait = budget.RateLimited, max(wait, limit.Wait(now))
	}
	c := b.pool.Note(now, r.GrantID, worker, status, wait)
	if c == nil {
		return
	}
	text := c.Why + " without giving a wait time"
	if wait > 0 {
		text = c.Why + ", wait " + wait.Round(time.Second).String()
	}
	b.log.Debug("worker reported a limit", zap.String("resource", c.Resource), zap.Time("until", c.Until),
		zap.String("reason", text), zap.String("worker", worker))
	b.owner.Send(b.ctx, fsm.LimitReported{Worker: worker, Resource: c.Resource, Until: c.Until, Text: text}, nil)
}

// Close closes a resource that the machine has closed.
func (b *Broker) Close(c fsm.CooldownSet) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pool.Close(c.Resource, c.Until)
}

// Open opens a resource that the machine has opened.
func (b *Broker) Open(resource string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pool.Open(b.now(), resource)
}

// Drop revokes the leases of a worker that is gone.
func (b *Broker) Drop(worker string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pool.Drop(b.now(), worker)
}
