package bus

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"retake/internal/bus/link"
	"retake/internal/bus/wire"
)

func hello() wire.Hello {
	return wire.Hello{ProtocolVersion: "1.0", Worker: wire.HelloWorker{WorkerID: worker, AttemptID: worker}}
}

func welcome(h wire.Hello) wire.Payload {
	if refusal := wire.CheckVersion(h.ProtocolVersion); refusal != nil {
		return refusal
	}
	return wire.Welcome{
		ProtocolVersion: wire.ProtocolVersion, Director: wire.WelcomeDirector{RunID: "run_1"},
		AttemptID: h.Worker.AttemptID, HeartbeatIntervalSeconds: 15,
	}
}

func TestHello(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := openBus(t, Options{RunID: "run_1"})
		c := dial(t, b, worker)
		if _, err := c.Hello(ctxFor(t), hello()); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("no director listens: %v", err)
		}
		background(t, func(ctx context.Context) error {
			return b.ServeHello(ctx, func(_ string, h wire.Hello) wire.Payload { return welcome(h) })
		})
		synctest.Wait()
		if p, err := c.Hello(ctxFor(t), hello()); err != nil || p.(*wire.Welcome).AttemptID != worker {
			t.Errorf("%+v, %v", p, err)
		}
		newer := hello()
		newer.ProtocolVersion = "2.0"
		if p, err := c.Hello(ctxFor(t), newer); err != nil || p.(*wire.Incompatibility).SenderProtocolVersion != "2.0" {
			t.Errorf("%+v, %v", p, err)
		}
		foreign := hello()
		foreign.Worker.AttemptID = "other-1"
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Hello(ctx, foreign); !errors.Is(err, ErrNoAnswer) || totalDead(b) != 1 {
			t.Errorf("foreign hello: %v, %d dead letters", err, totalDead(b))
		}
	})
}

func TestHelloOfAnotherEnvelopeVersionIsTold(t *testing.T) {
	b := openBus(t, Options{})
	background(t, func(ctx context.Context) error {
		return b.ServeHello(ctx, func(string, wire.Hello) wire.Payload { return nil })
	})
	c := dial(t, b, worker)
	body := strings.Replace(string(mustEncode(t, worker, hello())), "hello.v1", "hello.v2", 1)
	var m *nats.Msg
	until(t, "an answer", func() bool {
		var err error
		m, err = c.nc.Request(b.subjects.Worker(worker, wire.ChannelHello), []byte(body), time.Second)
		return err == nil
	})
	e, err := wire.Decode(m.Data)
	if err != nil || e.Payload.MessageType() != "protocol_incompatibility.v1" {
		t.Errorf("%+v, %v", e, err)
	}
}

// The director may publish where a worker may not, so its answers must only reach the worker that asked.
func TestAnswerGoesToTheAskerOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := openBus(t, Options{})
		background(t, func(ctx context.Context) error {
			return b.ServeHello(ctx, func(_ string, h wire.Hello) wire.Payload { return welcome(h) })
		})
		synctest.Wait()
		victim := dial(t, b, "other-1")
		heard := make(chan Command, 1)
		if err := victim.OnControl(func(c Command) { heard <- c }); err != nil {
			t.Fatal(err)
		}
		c := dial(t, b, worker)
		m := nats.NewMsg(b.subjects.Worker(worker, wire.ChannelHello))
		m.Reply, m.Data = b.subjects.Control("other-1"), mustEncode(t, worker, hello())
		if err := errors.Join(c.nc.PublishMsg(m), c.nc.Flush()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(heard) != 0 || totalDead(b) != 1 {
			t.Errorf("%d commands heard, %d dead letters", len(heard), totalDead(b))
		}
	})
}

func TestHeartbeatsAndProgressArrive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := openBus(t, Options{})
		beats, steps := make(chan string, 1), make(chan string, 1)
		background(t, func(ctx context.Context) error {
			return b.WatchWorkers(ctx,
				func(w string, h wire.Heartbeat) { beats <- w + " " + h.State.Stage },
				func(w string, p wire.TaskProgress) { steps <- w + " " + p.Step })
		})
		synctest.Wait()
		c := dial(t, b, worker)
		if err := errors.Join(c.Heartbeat(heartbeat()),
			c.Progress(wire.TaskProgress{IssueNumber: 1, Attempt: 1, Stage: "CODE", Step: "editing"})); err != nil {
			t.Fatal(err)
		}
		if beat, step := <-beats, <-steps; beat != worker+" CODE" || step != worker+" editing" {
			t.Errorf("%q, %q", beat, step)
		}
		if err := c.Heartbeat(wire.Heartbeat{}); !Permanent(err) {
			t.Errorf("a heartbeat without a stage: %v", err)
		}
	})
}

func TestProbeAndCommands(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := openBus(t, Options{})
		if _, err := b.Probe(ctxFor(t), worker); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("nobody there: %v", err)
		}
		c := dial(t, b, worker)
		heard := make(chan wire.Payload, 8)
		answers := make(chan wire.Payload, 1) // the worker's answer to the next probe, or nil for silence
		if err := c.OnControl(func(cmd Command) {
			if _, probe := cmd.Payload.(*wire.Probe); !probe {
				heard <- cmd.Payload
				return
			}
			select {
			case p := <-answers:
				if err := cmd.Reply(p); err != nil {
					t.Error(err)
				}
			default:
			}
		}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := b.Probe(context.Background(), worker); !errors.Is(err, ErrNoAnswer) ||
			time.Since(start) != link.AnswerTimeout {
			t.Errorf("silent worker: %v after %s", err, time.Since(start))
		}
		answers <- heartbeat()
		if h, err := b.Probe(ctxFor(t), worker); err != nil || h.State.IssueNumber != 21 {
			t.Errorf("%+v, %v", h, err)
		}
		answers <- wire.TaskProgress{IssueNumber: 1, Attempt: 1, Stage: "CODE"}
		if _, err := b.Probe(ctxFor(t), worker); !Permanent(err) || totalDead(b) != 1 {
			t.Errorf("odd answer: %v", err)
		}
		for _, p := range []wire.Payload{
			wire.Pause{},
			wire.Resume{},
			wire.Stop{Reason: wire.StopFenced},
			wire.SyncRequired{Reason: "behind_main", MainSHAExpected: "abc", RequiredAction: "merge_main"},
		} {
			if err := b.Send(ctxFor(t), worker, p); err != nil {
				t.Fatal(err)
			}
			if got := <-heard; got.MessageType() != p.MessageType() {
				t.Errorf("got %s, want %s", got.MessageType(), p.MessageType())
			}
		}
		if err := b.Send(ctxFor(t), "*", wire.Pause{}); err == nil {
			t.Error("a command to a wildcard was sent")
		}
	})
}

func TestSnapshotService(t *testing.T) {
	t.Parallel()
	b, nc := openOperated(t, Options{})
	background(t, func(ctx context.Context) error {
		return b.ServeSnapshot(ctx, func() wire.Snapshot {
			return wire.Snapshot{Director: wire.SnapshotDirector{RunID: "run_1", Phase: "MONITOR"}}
		})
	})
	watch, err := nc.SubscribeSync(b.subjects.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	var m *nats.Msg
	until(t, "an answer", func() bool {
		var err error
		m, err = nc.Request(b.subjects.Snapshot(), nil, time.Second)
		return err == nil
	})
	if e, err := wire.Decode(m.Data); err != nil || e.Payload.(*wire.Snapshot).Director.Phase != "MONITOR" {
		t.Errorf("%+v, %v", e, err)
	}
	if m, err = nc.Request("$SRV.PING.retake-director", nil, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	var ping micro.Ping
	if err := json.Unmarshal(m.Data, &ping); err != nil || ping.Metadata["fleet"] != "default" {
		t.Errorf("%s, %v", m.Data, err)
	}
	if err := b.PublishSnapshot(
		wire.Snapshot{Director: wire.SnapshotDirector{RunID: "run_2", Phase: "BOOT"}}); err != nil {
		t.Fatal(err)
	}
	until(t, "the published snapshot", func() bool {
		m, err := watch.NextMsg(time.Second)
		return err == nil && strings.Contains(string(m.Data), "run_2")
	})
}

func TestDialTriesOnce(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	o := clientOptions(t, openBus(t, out.join()), worker)
	out.Stop()
	if _, err := Dial(o); !errors.Is(err, nats.ErrNoServers) {
		t.Errorf("without a server: %v", err)
	}
	out.Start()
	c, err := Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// A report must not use a connection on which no hello was sent. A count read during an outage therefore already
// includes the next connection.
func TestReconnectsCountTheOneThatIsAwaited(t *testing.T) {
	t.Parallel()
	out := startOutside(t)
	c := dial(t, openBus(t, out.join()), worker)
	if n := c.Reconnects(); n != 0 {
		t.Errorf("%d at the beginning", n)
	}
	out.Stop()
	until(t, "the server is missed", func() bool { return !c.Connected() })
	if n := c.Reconnects(); n != 1 {
		t.Errorf("%d while the bus is unreachable, want 1, the next connection", n)
	}
	out.Start()
	until(t, "connected again", c.Connected)
	if n := c.Reconnects(); n != 1 {
		t.Errorf("%d after the server is back", n)
	}
}

func TestOpenSaysWhatToDo(t *testing.T) {
	out := startOutside(t)
	k := out.join().Keys
	cases := map[string]struct {
		o    Options
		want string
	}{
		"no server": {
			Options{URL: "nats://user:hidden@127.0.0.1:1", Keys: k, Dir: t.TempDir()},
			"leave agent_bus.url empty",
		},
		"no keys":   {Options{URL: "tls://127.0.0.1:1", Dir: t.TempDir()}, "director bus init"},
		"no folder": {Options{URL: "tls://127.0.0.1:1", Keys: k}, "missing directory"},
		"other keys": {
			Options{URL: out.URL, Keys: startOutside(t).join().Keys, Dir: t.TempDir()},
			"different certificate",
		},
		"nothing":    {Options{}, "missing server"},
		"bad prefix": {Options{URL: "nats://127.0.0.1:1", Keys: k, Dir: t.TempDir(), Prefix: "a.*"}, "subject prefix"},
		"bad fleet":  {Options{URL: "nats://127.0.0.1:1", Keys: k, Dir: t.TempDir(), Fleet: "a b"}, "fleet"},
	}
	for name, c := range cases {
		_, err := Open(ctxFor(t), c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReportIsCutAndRefusedWhenItIsNone(t *testing.T) {
	t.Parallel()
	b := openBus(t, Options{})
	c := dial(t, b, worker)
	long := failure("e1")
	long.LastStderrTail = strings.Repeat("x", 1<<20) + "the end"
	if err := c.Report(ctxFor(t), long); err != nil {
		t.Fatal(err)
	}
	all, err := b.Reports().Of(ctxFor(t), worker, 0)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d reports, %v", len(all), err)
	}
	if e := all[0].Body.(*wire.WorkerError); !strings.HasSuffix(e.LastStderrTail, "the end") ||
		!strings.Contains(e.LastStderrTail, " bytes cut]…") {
		t.Errorf("tail of %d bytes", len(e.LastStderrTail))
	}
	if err := c.Report(ctxFor(t), heartbeat()); !Permanent(err) {
		t.Errorf("a heartbeat as a report: %v", err)
	}
}

func TestDirectorsOwnReport(t *testing.T) {
	b := openBus(t, Options{})
	for range 2 {
		if err := b.Reports().Put(ctxFor(t), worker, *failure(worker + "/exit")); err != nil {
			t.Fatal(err)
		}
	}
	all, err := b.Reports().Of(ctxFor(t), worker, 0)
	if err != nil || len(all) != 1 || errorID(all[0]) != worker+"/exit" {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestCredentialsLeaveNoURL(t *testing.T) {
	const list = "nats://director:hunter2@a:4222, tls://director:hunter2@b:4222,nats://c:4222,::bad:hunter2"
	b := &Bus{options: Options{URL: list}}
	if got, want := b.WorkerURL("x"), "tls://a:4222,tls://b:4222,tls://c:4222"; got != want {
		t.Errorf("workers get %q, want %q", got, want)
	}
	if got, want := redacted(list),
		"nats://director:xxxxx@a:4222,tls://director:xxxxx@b:4222,nats://c:4222"; got != want {
		t.Errorf("errors say %q, want %q", got, want)
	}
	if got, want := redacted("::bad:hunter2"), "the configured agent_bus.url"; got != want {
		t.Errorf("errors say %q, want %q", got, want)
	}
}
