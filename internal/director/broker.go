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

// broker grants leases on models to all workers of the fleet. A restart forgets the leases; until workers have new
// ones, their own limiters apply. Cooldowns survive a restart, because the machine journals them.
type broker struct {
	*session
	ctx  context.Context // the session's
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

// limit sets the limits for future leases.
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

// Report records the result of a call. The machine decides how long that closes the resource for other workers.
func (b *broker) Report(worker string, r wire.BudgetReport) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, status, wait := b.now(), budget.Status(r.Status), budget.RetryAfter(r)
	// the headers can say that the limit is exhausted, whatever the status
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

// close closes a resource that the machine closed, open reopens it, and drop forgets a worker that is gone.
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
