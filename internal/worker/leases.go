package worker

import (
	"context"
	"sync"
	"time"

	"retake/internal/agent"
	"retake/internal/budget"
	"retake/internal/bus/wire"

	"go.uber.org/zap"
)

const (
	// directorWait is the maximum wait for the director's answer about a lease. The director answers from memory, so a
	// silent director is down.
	directorWait = time.Second
	// maxLeaseWait is the longest pause between two requests for a lease.
	maxLeaseWait = 30 * time.Second
)

// defaultBudget holds the defaults from the configuration reference.
var defaultBudget = wire.PlanBudget{MaxConcurrent: 1, SpacingSeconds: 1, CooldownSeconds: 10}

// leaseClient gets model leases for the stages from the director. While the director does not answer, it uses a local
// pool with the same limits. The pool also tracks the director's grants and cooldowns, so the limits stay in force
// while the director is silent. Its methods are safe for concurrent use.
type leaseClient struct {
	bus    Bus
	worker string
	log    *zap.Logger

	mu         sync.Mutex
	pool       *budget.Pool
	unanswered bool // set if the last request got no answer
}

func newLeaseClient(p *wire.Plan, b Bus, log *zap.Logger) *leaseClient {
	l := defaultBudget
	if p.Budget != nil {
		l = *p.Budget
	}
	return &leaseClient{bus: b, worker: p.WorkerID, log: log, pool: budget.New("local-"+p.WorkerID, budget.Limits{
		MaxConcurrent: l.MaxConcurrent, Spacing: duration(l.SpacingSeconds, 0),
		Cooldown: duration(l.CooldownSeconds, 0), Lease: duration(l.LeaseSeconds, 0),
	})}
}

// acquire requests a lease once, without waiting for one.
func (c *leaseClient) acquire(ctx context.Context, resource string) wire.BudgetGrant {
	g, answered := c.ask(ctx, wire.BudgetAcquire{Resource: resource, WorkerID: c.worker})
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case !answered:
		return c.pool.Acquire(now, resource, c.worker).Message()
	case g.GrantID != "":
		c.pool.Open(now, resource) // the director overrides the pool
		c.pool.Adopt(now, resource, g.GrantID, c.worker, duration(g.LeaseSeconds, budget.DefaultLease))
	case g.Why == budget.WhyCooldown:
		c.pool.Close(resource, now.Add(duration(g.WaitSeconds, 0)))
	}
	return g
}

// await asks until it gets a lease, ctx is done, or patience returns 0. It calls patience with each refusal and the
// wait requested in it. patience returns the maximum time to wait.
func (c *leaseClient) await(ctx context.Context, resource string,
	patience func(wire.BudgetGrant, time.Duration) time.Duration,
) wire.BudgetGrant {
	for {
		g := c.acquire(ctx, resource)
		if g.GrantID != "" {
			return g
		}
		wait := duration(g.WaitSeconds, time.Second)
		left := patience(g, wait)
		if left <= 0 {
			return g
		}
		select {
		case <-time.After(min(wait, maxLeaseWait, left)):
		case <-ctx.Done():
			return g
		}
	}
}

// release ends a lease. If the message to the director is lost, the lease expires.
func (c *leaseClient) release(ctx context.Context, id string) {
	c.mu.Lock()
	c.pool.Release(time.Now(), id, c.worker)
	c.mu.Unlock()
	c.releaseThere(ctx, id)
}

func (c *leaseClient) releaseThere(ctx context.Context, id string) {
	if !c.pool.Own(id) {
		c.ask(ctx, wire.BudgetRelease{GrantID: id})
	}
}

// report records the outcome of a model call in the pool, and reports it to the director.
func (c *leaseClient) report(ctx context.Context, r wire.BudgetReport) {
	c.mu.Lock()
	c.pool.Report(time.Now(), r.GrantID, c.worker, budget.Status(r.Status), budget.RetryAfter(r))
	c.mu.Unlock()
	if !c.pool.Own(r.GrantID) {
		c.ask(ctx, r)
	}
}

// drop releases the remaining leases of an ended stage. It takes at most directorWait, because the worker may have to
// end soon. A lease that it cannot release expires.
func (c *leaseClient) drop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, directorWait)
	defer cancel()
	c.mu.Lock()
	held := c.pool.Drop(time.Now(), c.worker)
	c.mu.Unlock()
	for _, id := range held {
		c.releaseThere(ctx, id)
	}
}

// ask asks the director with a short timeout. It returns false if the director does not answer. It logs when the
// director stops answering and when it answers again.
func (c *leaseClient) ask(ctx context.Context, p wire.Payload) (wire.BudgetGrant, bool) {
	limited, cancel := context.WithTimeout(ctx, directorWait)
	defer cancel()
	g, err := c.bus.AskBudget(limited, p)
	if ctx.Err() != nil {
		return g, err == nil // the caller gave up, so the director may be healthy
	}
	c.mu.Lock()
	before := c.unanswered
	c.unanswered = err != nil
	c.mu.Unlock()
	switch {
	case err != nil && !before:
		c.log.Warn("director did not answer lease requests; applying local limits", zap.Error(err))
	case err == nil && before:
		c.log.Info("director is answering lease requests again")
	}
	return g, err == nil
}

// lease is an agent's lease on its model. Leases limit the rate at which agents start. A lease ends when it expires or
// the agent ends, so a long run outlasts its lease. A nil lease means that the agent runs without one.
type lease struct {
	leases   *leaseClient
	resource string
	grant    string
	until    time.Time
}

// report tells the director that the provider is limiting the agent. It returns 0 if the report was sent or is
// unnecessary, and otherwise the delay before the next attempt to report. A report needs a lease, so report requests a
// new one if the agent's lease has expired.
func (l *lease) report(ctx context.Context, r agent.RateLimit) time.Duration {
	if l == nil {
		return 0
	}
	grant := l.grant
	if time.Now().After(l.until) {
		g := l.leases.acquire(ctx, l.resource)
		switch {
		case g.GrantID != "":
			grant = g.GrantID
			defer l.leases.release(ctx, grant)
		case g.Why == budget.WhyCooldown:
			return 0
		default:
			return max(duration(g.WaitSeconds, time.Second), time.Second)
		}
	}
	report := wire.BudgetReport{GrantID: grant, Status: string(budget.Failed), Headers: r.Headers}
	if r.Status == 429 || r.Status == 0 {
		report.Status = string(budget.RateLimited)
	}
	if r.RetryAfter > 0 {
		report.RetryAfterSeconds = new(r.RetryAfter.Seconds())
	}
	l.leases.report(ctx, report)
	return 0
}

func (l *lease) release(ctx context.Context) {
	if l != nil {
		l.leases.release(ctx, l.grant)
	}
}
