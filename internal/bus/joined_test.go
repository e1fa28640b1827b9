package bus

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"retake/internal/bus/wire"
)

// composeServer is the server of docker-compose.yml, with its own configuration file: workers sign in without a
// credential and are in an account of their own.
func composeServer(t *testing.T) *outside {
	t.Helper()
	t.Setenv("RETAKE_BUS_PASSWORD", `"4711"`)
	o := &outside{t: t, opts: natsd.Options{}}
	if err := o.opts.ProcessConfigFile(filepath.Join("..", "..", "deploy", "nats.conf")); err != nil {
		t.Fatal(err)
	}
	o.opts.Host, o.opts.Port, o.opts.StoreDir, o.opts.NoLog, o.opts.NoSigs = "127.0.0.1", freePort(t), t.TempDir(), true, true
	o.start()
	t.Cleanup(o.stop)
	return o
}

func joinCompose(t *testing.T, o *outside) *Bus {
	t.Helper()
	return openBus(t, Options{URL: "nats://director:4711@" + o.url()[len("nats://"):]})
}

func TestAWorkerWorksAcrossTheAccountsOfCompose(t *testing.T) {
	o := composeServer(t)
	b := joinCompose(t, o)
	heard := make(chan string, 1)
	background(t, func(ctx context.Context) error {
		return b.ServeHello(ctx, func(_ string, h wire.Hello) wire.Payload { return welcome(h) })
	})
	background(t, func(ctx context.Context) error {
		return b.WatchWorkers(ctx, func(worker string, _ wire.Heartbeat) { heard <- worker }, func(string, wire.TaskProgress) {})
	})
	if got := b.WorkerURL("192.0.2.1"); got != o.url() {
		t.Fatalf("workers connect to %s, want %s", got, o.url())
	}
	c, err := Dial(ClientOptions{URL: b.WorkerURL("192.0.2.1"), WorkerID: worker, Key: b.AttemptKey(worker)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.OnControl(func(m Command) { _ = m.Reply(heartbeat()) }); err != nil {
		t.Fatal(err)
	}
	until(t, "welcome", func() bool {
		_, err := c.Hello(ctxFor(t), hello())
		return err == nil
	})
	if err := c.Heartbeat(heartbeat()); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != worker {
		t.Errorf("heartbeat of %s", got)
	}
	if _, err := b.Probe(ctxFor(t), worker); err != nil {
		t.Errorf("probe: %v", err)
	}
	if err := c.Report(ctxFor(t), failure("e1")); err != nil {
		t.Errorf("report: %v", err)
	}
	if all, err := b.ReportsOf(ctxFor(t), worker, 0); err != nil || len(all) != 1 {
		t.Errorf("%d reports, %v", len(all), err)
	}
	background(t, func(ctx context.Context) error { return b.ServeBudget(ctx, oneLease{}) })
	var grant wire.BudgetGrant
	until(t, "lease", func() bool {
		grant, err = c.AskBudget(ctxFor(t), wire.BudgetAcquire{Resource: "model.x"})
		return err == nil
	})
	if grant.GrantID != worker {
		t.Errorf("%+v", grant)
	}
}

// oneLease grants everything, under the name of who asked.
type oneLease struct{}

func (oneLease) Acquire(worker string, _ wire.BudgetAcquire) wire.BudgetGrant {
	return wire.BudgetGrant{GrantID: worker, LeaseSeconds: 1}
}
func (oneLease) Release(string, wire.BudgetRelease) {}
func (oneLease) Report(string, wire.BudgetReport)   {}

func TestAWorkerOfComposeCannotReachTheJournal(t *testing.T) {
	o := composeServer(t)
	b := joinCompose(t, o)
	seq, err := b.Journal().Append(ctxFor(t), "b1", 0, []byte("batch"))
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 16)
	nc, err := nats.Connect(o.url(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	spied, err := nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	s := wire.Subjects{Prefix: wire.DefaultPrefix}
	// A stored report is acknowledged on the reply subject: with everything in one account that would be an append.
	if err := nc.PublishRequest(s.Worker(worker, wire.ChannelError), s.Journal(), signed(t, b, worker, failure("e1"))); err != nil {
		t.Fatal(err)
	}
	until(t, "report stored", func() bool {
		all, err := b.ReportsOf(ctxFor(t), worker, 0)
		return err == nil && len(all) == 1
	})
	if m, err := spied.NextMsg(10 * time.Second); err != nil || m.Subject != s.Journal() {
		t.Errorf("the acknowledgement should come back into the workers' account: %v, %v", m, err)
	}
	for _, subject := range []string{s.Journal(), s.Dead(wire.CauseNotJSON), s.Control("other-1"), "$JS.API.STREAM.DELETE.RETAKE_JOURNAL"} {
		if err := nc.Publish(subject, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-refused:
		case <-time.After(10 * time.Second):
			t.Errorf("publishing on %s was not refused", subject)
		}
	}
	if next, err := b.Journal().Append(ctxFor(t), "b2", seq, []byte("batch")); err != nil || next != seq+1 {
		t.Errorf("somebody else wrote to the journal: %d, %v", next, err)
	}
	if m, err := spied.NextMsg(50 * time.Millisecond); err == nil {
		t.Errorf("a worker heard %s", m.Subject)
	}
}
