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
	"retake/internal/recovery"
)

// broker hands out leases on models to all workers of the fleet. Leases are soft: a restart forgets them, and the workers'
// own limiters rule meanwhile. Cooldowns are not: the machine journals them.
type broker struct {
	mu   sync.Mutex
	pool *budget.Pool
	cool func(budget.Cooldown)
	now  func() time.Time
	log  *zap.Logger
}

var _ bus.BudgetHandler = (*broker)(nil)

func (s *session) newBroker(ctx context.Context, m *fsm.Machine) *broker {
	c := s.config.RateLimits.Model
	b := &broker{
		pool: budget.New(s.runID, budget.Limits{
			MaxConcurrent: c.MaxConcurrentRequests, Spacing: c.MinBetweenRequests, Cooldown: c.CooldownOnError,
		}),
		now: s.owner.clock.peek, log: s.log,
		cool: func(c budget.Cooldown) {
			s.owner.tell(ctx, fsm.CooldownReported{Resource: c.Resource, Until: c.Until, Why: c.Why}, nil)
		},
	}
	b.pool.Expire(b.now())
	for _, c := range m.Cooldowns() {
		b.pool.Close(c.Resource, c.Until, c.Why)
	}
	return b
}

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

// Report hears how a call went; a limit closes the resource for everybody.
func (b *broker) Report(worker string, r wire.BudgetReport) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, status, wait := b.now(), budget.Status(r.Status), budget.RetryAfter(r)
	if limit, ok := recovery.ReadLimit(r.Headers, now); ok && limit.Wait(now) > 0 { // whatever the status: nothing is left
		status, wait = budget.RateLimited, max(wait, limit.Wait(now))
	}
	c := b.pool.Report(now, r.GrantID, worker, status, wait)
	if c == nil {
		return
	}
	b.log.Info("a model is closed for all workers", zap.String("resource", c.Resource), zap.Time("until", c.Until),
		zap.String("reason", c.Why), zap.String("worker", worker))
	b.cool(*c)
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
