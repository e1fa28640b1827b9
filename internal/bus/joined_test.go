package bus

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/server"
	"retake/internal/bus/wire"
)

func TestAWorkerWorksOnAJoinedServer(t *testing.T) {
	o := startOutside(t)
	b := openBus(t, o.join())
	heard := make(chan string, 1)
	background(t, func(ctx context.Context) error {
		return b.ServeHello(ctx, func(_ string, h wire.Hello) wire.Payload { return welcome(h) })
	})
	background(t, func(ctx context.Context) error {
		return b.WatchWorkers(ctx, func(worker string, _ wire.Heartbeat) {
			select {
			case heard <- worker:
			default:
			}
		}, func(string, wire.TaskProgress) {})
	})
	if got := b.WorkerURL("192.0.2.1"); got != o.URL {
		t.Fatalf("workers connect to %s, want %s", got, o.URL)
	}
	c := dial(t, b, worker)
	if err := c.OnControl(func(m Command) { _ = m.Reply(heartbeat()) }); err != nil {
		t.Fatal(err)
	}
	until(t, "welcome", func() bool {
		_, err := c.Hello(ctxFor(t), hello())
		return err == nil
	})
	until(t, "heartbeat", func() bool { // without a subscriber, a heartbeat is lost
		if err := c.Heartbeat(heartbeat()); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-heard:
			return got == worker
		case <-time.After(50 * time.Millisecond):
			return false
		}
	})
	if _, err := b.Probe(ctxFor(t), worker); err != nil {
		t.Errorf("probe: %v", err)
	}
	if err := c.Report(ctxFor(t), failure("e1")); err != nil {
		t.Errorf("report: %v", err)
	}
	if all, err := b.Reports().Of(ctxFor(t), worker, 0); err != nil || len(all) != 1 {
		t.Errorf("%d reports, %v", len(all), err)
	}
	background(t, func(ctx context.Context) error { return b.ServeBudget(ctx, oneLease{}) })
	var grant wire.BudgetGrant
	until(t, "lease", func() bool {
		var err error
		grant, err = c.AskBudget(ctxFor(t), wire.BudgetAcquire{Resource: "model.x"})
		return err == nil
	})
	if grant.GrantID != worker {
		t.Errorf("%+v", grant)
	}
}

// oneLease grants every request, in the name of the worker.
type oneLease struct{}

func (oneLease) Acquire(worker string, _ wire.BudgetAcquire) wire.BudgetGrant {
	return wire.BudgetGrant{GrantID: worker, LeaseSeconds: 1}
}
func (oneLease) Release(string, wire.BudgetRelease) {}
func (oneLease) Report(string, wire.BudgetReport)   {}

// TLS, signing in and shutting workers out also work through a relay that forwards to a joined server.
func TestAWorkerBehindARelay(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	b := openBus(t, out.join())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		server.Relay(ctx, l, strings.TrimPrefix(out.URL, "tls://"), server.DefaultLimits, zap.NewNop())
	})
	defer running.Wait()
	defer stop()
	o := clientOptions(t, b, worker)
	o.URL = "tls://" + l.Addr().String()
	c, err := Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := b.Revoke(ctxFor(t), worker); err != nil {
		t.Fatal(err)
	}
	until(t, "the revoked worker is gone", func() bool { return !c.Connected() })
	if again, err := Dial(o); err == nil {
		again.Close()
		t.Error("it is let in again")
	}
}
