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

// broker hands out leases on models to all workers of the fleet. Leases are soft: a restart forgets them, and
// the workers' own limiters rule meanwhile. Cooldowns are not: the machine journals them.
type broker struct {
	*session
	ctx  context.Context // of the session
	mu   sync.Mutex
	pool *budget.Pool
}

var _ bus.BudgetHandler = (*broker)(nil)

func (s *session) newBroker(ctx context.Context, m *fsm.Machine) *broker {
	b := &broker{session: s, ctx: ctx, pool: budget.New(s.runID, s.begun.ModelLimits())}
	b.pool.Expire(b.now())
	for _, c := range m.Cooldowns() {
		b.pool.Close(c.Resource, c.Until)
	}
	return b
}

// limit takes other limits for the leases that are granted from now on.
func (b *broker) limit(l budget.Limits) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pool.Limit(l)
}

func (b *broker) now() time.Time { return b.owner.Clock.Now() }

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

// Report records how a call went. For how long that closes the resource for other workers is the machine's decision.
func (b *broker) Report(worker string, r wire.BudgetReport) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, status, wait := b.now(), budget.Status(r.Status), budget.RetryAfter(r)
	// whatever the status: nothing is left
	if limit, ok := retryafter.ReadLimit(r.Headers, now); ok && limit.Wait(now) > 0 {
		status, wait = budget.RateLimited, max(wait, limit.Wait(now))
	}
	c := b.pool.Note(now, r.GrantID, worker, status, wait)
	if c == nil {
		return
	}
	text := c.Why + " without a stated wait"
	if wait > 0 {
		text = c.Why + ", wait " + wait.Round(time.Second).String()
	}
	b.log.Debug("a worker reports a limit", zap.String("resource", c.Resource), zap.Time("until", c.Until),
		zap.String("reason", text), zap.String("worker", worker))
	b.owner.Send(b.ctx, fsm.LimitReported{Worker: worker, Resource: c.Resource, Until: c.Until, Text: text}, nil)
}

// close shuts a resource that the machine closed, open opens it again, and drop forgets a worker that is gone.
func (b *broker) close(c fsm.CooldownSet) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pool.Close(c.Resource, c.Until)
}

func (b *broker) open(resource string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pool.Open(b.now(), resource)
}

func (b *broker) drop(worker string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pool.Drop(b.now(), worker)
}
