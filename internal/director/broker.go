package director

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/budget"
	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/fsm"
	"retake/internal/recovery/retryafter"
)

// broker hands out leases on models to all workers of the fleet. Leases are soft: a restart forgets them, and the workers'
// own limiters rule meanwhile. Cooldowns are not: the machine journals them.
type broker struct {
	*session
	ctx  context.Context // of the session
	mu   sync.Mutex
	pool *budget.Pool
}

var _ bus.BudgetHandler = (*broker)(nil)

func (s *session) newBroker(ctx context.Context, m *fsm.Machine) *broker {
	c := s.config.RateLimits.Model
	b := &broker{session: s, ctx: ctx, pool: budget.New(s.runID, budget.Limits{
		MaxConcurrent: c.MaxConcurrentRequests, Spacing: c.MinBetweenRequests, Cooldown: c.CooldownOnError,
	})}
	b.pool.Expire(b.now())
	for _, c := range m.Cooldowns() {
		b.pool.Close(c.Resource, c.Until, c.Why)
	}
	return b
}

func (b *broker) now() time.Time { return b.owner.clock.peek() }

// Acquire grants a lease, or says how long to wait.
func (b *broker) Acquire(worker string, a wire.BudgetAcquire) wire.BudgetGrant {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pool.Acquire(b.now(), a.Resource, worker).Message()
}

// Release takes a lease back.
func (b *broker) Release(worker string, r wire.BudgetRelease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pool.Release(b.now(), r.GrantID, worker)
}

// Report records how a call went; a limit closes the resource for every worker.
func (b *broker) Report(worker string, r wire.BudgetReport) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, status, wait := b.now(), budget.Status(r.Status), budget.RetryAfter(r)
	if limit, ok := retryafter.ReadLimit(r.Headers, now); ok && limit.Wait(now) > 0 { // whatever the status: nothing is left
		status, wait = budget.RateLimited, max(wait, limit.Wait(now))
	}
	c := b.pool.Report(now, r.GrantID, worker, status, wait)
	if c == nil {
		return
	}
	b.log.Info("a model is closed for all workers", zap.String("resource", c.Resource), zap.Time("until", c.Until),
		zap.String("reason", c.Why), zap.String("worker", worker))
	b.owner.send(b.ctx, fsm.CooldownReported{Resource: c.Resource, Until: c.Until, Why: c.Why}, nil)
}

// close shuts a resource that the machine closed, and drop forgets a worker that is gone.
func (b *broker) close(c fsm.CooldownSet) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pool.Close(c.Resource, c.Until, c.Why)
}

func (b *broker) drop(worker string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pool.Drop(b.now(), worker)
}
