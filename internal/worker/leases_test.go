package worker

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/budget"
	"retake/internal/bus/wire"

	"go.uber.org/zap"
)

// lender is a director's service in memory that records the requests.
type lender struct {
	pool *budget.Pool
	said []string
}

func (l *lender) answer(p wire.Payload) (wire.BudgetGrant, error) {
	const worker = "k3v9qx2m-1"
	now := time.Now()
	switch v := p.(type) {
	case wire.BudgetAcquire:
		g := l.pool.Acquire(now, v.Resource, worker).Message()
		l.said = append(l.said, fmt.Sprintf("acquire %s%s", g.GrantID, g.Why))
		return g, nil
	case wire.BudgetRelease:
		l.said = append(l.said, "release "+v.GrantID)
		l.pool.Release(now, v.GrantID, worker)
	case wire.BudgetReport:
		l.said = append(l.said, "report "+v.GrantID+" "+v.Status)
		l.pool.Report(now, v.GrantID, worker, budget.Status(v.Status), budget.RetryAfter(v))
	}
	return wire.BudgetGrant{}, nil
}

// peek returns the answer that another worker would get now. It ends a lease that it gets, but that lease still counts
// for the spacing.
func peek(p *budget.Pool, resource string) budget.Grant {
	g := p.Acquire(time.Now(), resource, "peek")
	p.Drop(time.Now(), "peek")
	return g
}

func testLeaseClient(t *testing.T) (*leaseClient, *fakeBus, *lender) {
	t.Helper()
	l := &lender{pool: budget.New("run_1", budget.Limits{
		MaxConcurrent: 1, Spacing: time.Second,
		Cooldown: 10 * time.Second,
	})}
	bus := newFakeBus()
	bus.budget = l.answer
	return newLeaseClient(testPlan(t), bus, zap.NewNop()), bus, l
}

func TestLeaseClientAsksTheDirector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _, l := testLeaseClient(t)
		g := k.acquire(t.Context(), "model.x")
		if g.GrantID != "run_1.1" || g.LeaseSeconds != 120 {
			t.Fatalf("%+v", g)
		}
		if g := k.acquire(t.Context(), "model.x"); g.Why != budget.WhyBusy || g.WaitSeconds != 1 {
			t.Errorf("%+v", g)
		}
		k.report(t.Context(), wire.BudgetReport{GrantID: g.GrantID, Status: "ok"})
		k.release(t.Context(), g.GrantID)
		if want := []string{"acquire run_1.1", "acquire busy", "report run_1.1 ok", "release run_1.1"}; !slices.Equal(
			l.said, want) {
			t.Errorf("%q", l.said)
		}
	})
}

// TestLeaseClientByItself checks that the same limits apply while the director does not answer, and that the director's
// earlier grants and cooldowns still count.
func TestLeaseClientByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, bus, l := testLeaseClient(t)
		theirs := k.acquire(t.Context(), "model.x")
		bus.set(func() { bus.down = true })
		if g := k.acquire(t.Context(), "model.x"); g.Why != budget.WhyBusy {
			t.Errorf("the director's grant is forgotten: %+v", g)
		}
		k.release(t.Context(), theirs.GrantID)
		time.Sleep(time.Second)
		own := k.acquire(t.Context(), "model.x")
		if own.GrantID != "local-k3v9qx2m-1.1" {
			t.Fatalf("%+v", own)
		}
		k.report(t.Context(), wire.BudgetReport{GrantID: own.GrantID, Status: "rate_limited"})
		k.release(t.Context(), own.GrantID)
		if g := k.acquire(t.Context(), "model.x"); g.Why != budget.WhyCooldown || g.WaitSeconds != 10 {
			t.Errorf("%+v", g)
		}
		bus.set(func() { bus.down = false })
		time.Sleep(2 * time.Minute) // the lease that could not be released must first expire there
		if g := k.acquire(t.Context(), "model.x"); g.GrantID != "run_1.2" {
			t.Errorf("the director rules again: %+v, %q", g, l.said)
		}
	})
}

func TestLeaseClientRemembersTheDirectorsCooldown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, bus, l := testLeaseClient(t)
		l.pool.Close("model.x", time.Now().Add(time.Minute))
		if g := k.acquire(t.Context(), "model.x"); g.Why != budget.WhyCooldown || g.WaitSeconds != 60 {
			t.Errorf("%+v", g)
		}
		bus.set(func() { bus.down = true })
		time.Sleep(59 * time.Second)
		if g := k.acquire(t.Context(), "model.x"); g.Why != budget.WhyCooldown || g.WaitSeconds != 1 {
			t.Errorf("%+v", g)
		}
	})
}

// TestLeaseClientRemembersALift checks that a lease from the director proves the resource open again, even after the
// director stops answering.
func TestLeaseClientRemembersALift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, bus, l := testLeaseClient(t)
		l.pool.Close("model.x", time.Now().Add(time.Hour))
		k.acquire(t.Context(), "model.x")
		l.pool.Open(time.Now(), "model.x")
		g := k.acquire(t.Context(), "model.x")
		if g.GrantID == "" {
			t.Fatalf("%+v", g)
		}
		k.release(t.Context(), g.GrantID)
		bus.set(func() { bus.down = true })
		time.Sleep(2 * time.Second)
		if g := k.acquire(t.Context(), "model.x"); g.GrantID == "" {
			t.Errorf("closed still: %+v", g)
		}
	})
}

func TestLeaseClientDropsWhatAStageLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, bus, l := testLeaseClient(t)
		k.acquire(t.Context(), "model.x")
		bus.set(func() { bus.down = true })
		own := k.acquire(t.Context(), "model.y")
		bus.set(func() { bus.down = false })
		k.drop(t.Context())
		if own.GrantID == "" || !slices.Equal(l.said, []string{"acquire run_1.1", "release run_1.1"}) {
			t.Errorf("%+v, %q", own, l.said)
		}
	})
}

func TestLeaseClientOfAHangingDirector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, bus, _ := testLeaseClient(t)
		bus.budget = func(wire.Payload) (wire.BudgetGrant, error) {
			time.Sleep(directorWait)
			return wire.BudgetGrant{}, errors.New("too late")
		}
		began := time.Now()
		if g := k.acquire(t.Context(), "model.x"); g.GrantID == "" || time.Since(began) != directorWait {
			t.Errorf("%+v after %s", g, time.Since(began))
		}
	})
}
