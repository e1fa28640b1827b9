package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/wire"
)

// counter grants every request and records it.
type counter struct {
	mu   sync.Mutex
	said []string
}

func (c *counter) note(format string, args ...any) {
	if !c.mu.TryLock() {
		panic("two calls at a time")
	}
	defer c.mu.Unlock()
	c.said = append(c.said, fmt.Sprintf(format, args...))
}

func (c *counter) Acquire(w string, a wire.BudgetAcquire) wire.BudgetGrant {
	c.note("%s acquires %s", w, a.Resource)
	if a.Resource == "model.closed" {
		return wire.BudgetGrant{WaitSeconds: 12.5, Why: "cooldown"}
	}
	return wire.BudgetGrant{GrantID: "run_1.1", LeaseSeconds: 120}
}

func (c *counter) Release(w string, r wire.BudgetRelease) { c.note("%s releases %s", w, r.GrantID) }

func (c *counter) Report(w string, r wire.BudgetReport) {
	c.note("%s reports %s %s %v", w, r.GrantID, r.Status, *r.RetryAfterSeconds)
}

func ask(t *testing.T, c *Client, p wire.Payload) error {
	t.Helper()
	_, err := c.AskBudget(ctxFor(t), p)
	return err
}

func TestBudgetService(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := openBus(t, Options{})
		c := dial(t, b, worker)
		if _, err := c.AskBudget(ctxFor(t), wire.BudgetAcquire{Resource: "model.x"}); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("no director serves: %v", err)
		}
		var h counter
		background(t, func(ctx context.Context) error { return b.ServeBudget(ctx, &h) })
		synctest.Wait()
		g, err := c.AskBudget(ctxFor(t), wire.BudgetAcquire{Resource: "model.x"})
		if err != nil || g != (wire.BudgetGrant{GrantID: "run_1.1", LeaseSeconds: 120}) {
			t.Errorf("%+v, %v", g, err)
		}
		if g, err = c.AskBudget(ctxFor(t), wire.BudgetAcquire{Resource: "model.closed"}); err != nil ||
			g.WaitSeconds != 12.5 || g.Why != "cooldown" {
			t.Errorf("%+v, %v", g, err)
		}
		after := 30.0
		err = errors.Join(
			ask(t, c, wire.BudgetReport{GrantID: "run_1.1", Status: "rate_limited", RetryAfterSeconds: &after}),
			ask(t, c, wire.BudgetRelease{GrantID: "run_1.1"}))
		want := []string{worker + " acquires model.x", worker + " acquires model.closed", worker +
			" reports run_1.1 rate_limited 30", worker + " releases run_1.1"}
		if err != nil || !slices.Equal(h.said, want) {
			t.Errorf("%q, %v", h.said, err)
		}
		if err := ask(t, c, wire.BudgetReport{GrantID: "run_1.1", Status: "fine"}); !Permanent(err) {
			t.Errorf("an unknown status: %v", err)
		}
		if totalDead(b) != 0 {
			t.Errorf("%d dead letters", totalDead(b))
		}
	})
}

// The subject identifies the sender, because only that worker may publish on it.
func TestNobodyAsksForAnotherWorkersLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := openBus(t, Options{})
		var h counter
		background(t, func(ctx context.Context) error { return b.ServeBudget(ctx, &h) })
		synctest.Wait()
		victim, mad := dial(t, b, "victim-1"), dial(t, b, worker)
		own := wire.Inbox(worker) + ".x"
		acquire := func(sender, payload string) []byte {
			return mustEncode(t, sender, wire.BudgetAcquire{Resource: "model.x", WorkerID: payload})
		}
		cases := map[string]struct {
			asker string
			reply string
			op    string
			data  []byte
			dead  int
		}{
			// the server refuses this request
			"on the victim's subject": {"victim-1", own, "acquire", acquire("victim-1", "victim-1"), 0},
			"the victim's inbox": {
				worker, wire.Inbox("victim-1") + ".x", "acquire",
				acquire(worker, worker), 1,
			},
			"the victim named in the payload": {worker, own, "acquire", acquire(worker, "victim-1"), 1},
			"the victim named as the sender":  {worker, own, "acquire", acquire("victim-1", worker), 1},
			"no reply":                        {worker, "", "acquire", acquire(worker, worker), 1},
			"somewhere else": {
				worker, b.subjects.Control("victim-1"), "acquire",
				acquire(worker, worker), 1,
			},
			"another operation": {worker, own, "release", acquire(worker, worker), 1},
			"no operation":      {worker, own, "steal", acquire(worker, worker), 0}, // refused as well
			"not readable":      {worker, own, "acquire", []byte("{"), 1},
		}
		for name, c := range cases {
			m := nats.NewMsg(b.subjects.Budget(c.op, c.asker))
			m.Reply, m.Data = c.reply, c.data
			before := totalDead(b)
			if err := errors.Join(mad.nc.PublishMsg(m), mad.nc.Flush()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if len(h.said) > 0 || totalDead(b) != before+c.dead {
				t.Errorf("%s: handled %q, %d dead letters", name, h.said, totalDead(b)-before)
			}
		}
		if _, err := victim.AskBudget(ctxFor(t), wire.BudgetAcquire{
			Resource: "model.x",
			WorkerID: "forged",
		}); err != nil || !slices.Equal(h.said, []string{"victim-1 acquires model.x"}) {
			t.Errorf("%q, %v", h.said, err)
		}
	})
}

func TestBudgetOnAJoinedServer(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	b := openBus(t, out.join())
	var h counter
	background(t, func(ctx context.Context) error { return b.ServeBudget(ctx, &h) })
	c := dial(t, b, worker)
	acquire := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.AskBudget(ctx, wire.BudgetAcquire{Resource: "model.x"})
		return err == nil
	}
	until(t, "a lease", acquire)
	out.Stop()
	if acquire() {
		t.Error("a lease without a director")
	}
	out.Start()
	until(t, "a lease after the restart", acquire)
}
