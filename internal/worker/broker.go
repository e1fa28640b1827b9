package worker

import (
	"context"
	"sync"
	"time"

	"retake/internal/budget"
	"retake/internal/bus/wire"

	"go.uber.org/zap"
)

// directorWait is how long the director may take for an answer about a lease: it has the answer in memory, so that a
// second means that it is away.
const directorWait = time.Second

// Limits when the plan states none: the configuration reference's.
var defaultBudget = wire.PlanBudget{MaxConcurrent: 1, SpacingSeconds: 1, CooldownSeconds: 10}

// broker gets leases on models for the stages: the director's, or its own, by the same limits, while nobody answers. Its
// own pool also knows the director's grants and cooldowns, so that losing the director loosens nothing in here. Its
// methods may be called from any goroutine.
type broker struct {
	bus    Bus
	worker string
	log    *zap.Logger

	mu   sync.Mutex
	pool *budget.Pool
	away bool // the director did not answer last time
}

func newBroker(p *wire.Plan, b Bus, log *zap.Logger) *broker {
	l := defaultBudget
	if p.Budget != nil {
		l = *p.Budget
	}
	return &broker{bus: b, worker: p.WorkerID, log: log, pool: budget.New("local-"+p.WorkerID, budget.Limits{
		MaxConcurrent: l.MaxConcurrent, Spacing: seconds(l.SpacingSeconds, 0),
		Cooldown: seconds(l.CooldownSeconds, 0), Lease: seconds(l.LeaseSeconds, 0),
	})}
}

// acquire asks once.
func (k *broker) acquire(ctx context.Context, resource string) wire.BudgetGrant {
	var g wire.BudgetGrant
	answered := k.ask(ctx, func(ctx context.Context) (err error) {
		g, err = k.bus.AcquireBudget(ctx, wire.BudgetAcquire{Resource: resource, WorkerID: k.worker})
		return err
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	switch {
	case !answered:
		return k.pool.Acquire(now, resource, k.worker).Message()
	case g.GrantID != "":
		k.pool.Adopt(now, resource, g.GrantID, k.worker, seconds(g.LeaseSeconds, budget.DefaultLease))
	case g.Why == budget.WhyCooldown:
		k.pool.Close(resource, now.Add(seconds(g.WaitSeconds, 0)), budget.WhyCooldown)
	}
	return g
}

// release gives a lease back. If the director does not hear of it, it expires there.
func (k *broker) release(ctx context.Context, id string) {
	k.mu.Lock()
	k.pool.Release(time.Now(), id, k.worker)
	k.mu.Unlock()
	k.releaseThere(ctx, id)
}

func (k *broker) releaseThere(ctx context.Context, id string) {
	if !k.pool.Own(id) {
		k.ask(ctx, func(ctx context.Context) error { return k.bus.ReleaseBudget(ctx, wire.BudgetRelease{GrantID: id}) })
	}
}

// report says how a call went.
func (k *broker) report(ctx context.Context, r wire.BudgetReport) {
	k.mu.Lock()
	k.pool.Report(time.Now(), r.GrantID, k.worker, budget.Status(r.Status), budget.RetryAfter(r))
	k.mu.Unlock()
	if !k.pool.Own(r.GrantID) {
		k.ask(ctx, func(ctx context.Context) error { return k.bus.ReportBudget(ctx, r) })
	}
}

// drop releases what is held still: the stage that held it is over. It takes no longer than one answer may: the worker may
// have to end soon, and what the director does not hear of expires.
func (k *broker) drop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, directorWait)
	defer cancel()
	k.mu.Lock()
	held := k.pool.Drop(time.Now(), k.worker)
	k.mu.Unlock()
	for _, id := range held {
		k.releaseThere(ctx, id)
	}
}

// ask asks the director, not for long. false: it did not answer, which is logged when it begins and when it is over.
func (k *broker) ask(ctx context.Context, do func(context.Context) error) bool {
	limited, cancel := context.WithTimeout(ctx, directorWait)
	defer cancel()
	err := do(limited)
	if ctx.Err() != nil {
		return err == nil // nobody waits any more: that says nothing about the director
	}
	k.mu.Lock()
	before := k.away
	k.away = err != nil
	k.mu.Unlock()
	switch {
	case err != nil && !before:
		k.log.Warn("the director does not answer about leases; the worker's own limits hold", zap.Error(err))
	case err == nil && before:
		k.log.Info("the director answers about leases again")
	}
	return err == nil
}
