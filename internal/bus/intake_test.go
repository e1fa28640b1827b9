package bus

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/bus/server"
	"retake/internal/bus/wire"
)

// offences collects the arguments of OnOffence.
type offences chan Offence

// open opens a bus with a socket, because over a pipe a client takes seconds to notice that it was cut off.
func (o offences) open(t *testing.T, maxBytes int) *Bus {
	t.Helper()
	return openBus(t, Options{
		OnOffence: func(f Offence) { o <- f }, MaxMessageBytes: maxBytes,
		Server: startServer(t, server.Options{ListenHosts: []string{"127.0.0.1"}}),
	})
}

// dialSocket connects an admitted worker through the socket.
func dialSocket(t *testing.T, b *Bus, id string) *Client {
	t.Helper()
	o := clientOptions(t, b, id)
	o.InProcess, o.URL = nil, b.WorkerURL("127.0.0.1")
	c, err := Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// flood publishes on one subject as fast as it can until the connection closes, and returns the duration.
func flood(t *testing.T, c *Client, subject string, data []byte) (took time.Duration, sent int) {
	t.Helper()
	began := time.Now()
	for c.nc.IsConnected() {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("still connected after %d messages", sent)
		}
		if err := c.nc.PublishRequest(subject, wire.Inbox(c.options.WorkerID)+".x", data); err != nil {
			break
		}
		sent++
	}
	return time.Since(began), sent
}

// While one worker floods a class of its messages, the requests of another worker are answered without delay.
func TestFloodOfOneDelaysNobody(t *testing.T) {
	told := make(offences, 8)
	b := told.open(t, 0)
	background(t, func(ctx context.Context) error {
		return b.ServeHello(ctx, func(_ string, h wire.Hello) wire.Payload { return welcome(h) })
	})
	background(t, func(ctx context.Context) error {
		return b.WatchWorkers(ctx, func(string, wire.Heartbeat) {}, func(string, wire.TaskProgress) {})
	})
	background(t, func(ctx context.Context) error { return b.ServeBudget(ctx, oneLease{}) })
	honest := dial(t, b, "honest-1")
	until(t, "a first answer",
		func() bool { _, err := honest.Hello(ctxFor(t), helloOf("honest-1")); return err == nil })
	for n, data := range floods(b.subjects, t) {
		mad := dialSocket(t, b, fmt.Sprintf("mad-%d", n))
		subject := data.subject(mad.options.WorkerID)
		var floods sync.WaitGroup
		var took time.Duration
		var sent int
		floods.Go(func() { took, sent = flood(t, mad, subject, data.data(mad.options.WorkerID)) })
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := honest.AskBudget(ctx, wire.BudgetAcquire{Resource: "model.x"})
		asked := time.Since(began)
		floods.Wait()
		cancel()
		if err != nil || asked > time.Second {
			t.Errorf("%s: the honest worker was answered after %s: %v", subject, asked, err)
		}
		o := <-told
		t.Logf("%s: cut off %s after it began, with %d sent; its neighbour was answered in %s: %s", subject,
			took.Round(time.Microsecond), sent, asked.Round(time.Microsecond), o.What)
		if o.Worker != mad.options.WorkerID || o.What == "" || took > 5*time.Second {
			t.Errorf("%+v after %s", o, took)
		}
		b.Admit(mad.options.WorkerID) // this must not admit it again
	}
	if _, err := honest.Hello(ctxFor(t), helloOf("honest-1")); err != nil {
		t.Errorf("the honest worker: %v", err)
	}
	if len(told) != 0 {
		t.Errorf("told again: %+v", <-told)
	}
	all, err := b.Reports().Of(ctxFor(t), "mad-4", 0)
	if err != nil || len(all) != 0 {
		t.Errorf("%d stored, %v", len(all), err)
	}
}

// flooded is a class of messages to flood, with one message.
type flooded struct {
	subject func(worker string) string
	data    func(worker string) []byte
}

func floods(s wire.Subjects, t *testing.T) []flooded {
	t.Helper()
	return []flooded{
		{
			func(w string) string { return s.Worker(w, wire.ChannelHello) },
			func(w string) []byte { return mustEncode(t, w, helloOf(w)) },
		},
		{
			func(w string) string { return s.Worker(w, wire.ChannelHeartbeat) },
			func(w string) []byte { return mustEncode(t, w, heartbeat()) },
		},
		{
			func(w string) string { return s.Worker(w, wire.ChannelProgress) },
			func(string) []byte { return []byte("noise") },
		},
		{func(w string) string { return s.Budget("acquire", w) }, func(string) []byte { return nil }},
		{
			func(w string) string { return s.Worker(w, wire.ChannelError) },
			func(string) []byte { return make([]byte, defaultMaxMessageBytes) },
		},
	}
}

func helloOf(worker string) wire.Hello {
	return wire.Hello{ProtocolVersion: "1.0", Worker: wire.HelloWorker{WorkerID: worker, AttemptID: worker}}
}

// A worker has one connection. If a thief opens many with its credential, both the worker and the thief lose access.
func TestConnectionsOfAWorkerAreBounded(t *testing.T) {
	t.Parallel()
	told := make(offences, 8)
	b := told.open(t, 0)
	mad, honest := dialSocket(t, b, worker), dialSocket(t, b, "honest-1")
	connect := func() (*Client, error) {
		o := mad.options
		c, err := Dial(o)
		if err == nil {
			t.Cleanup(c.Close)
		}
		return c, err
	}
	for range 20 { // sequential connections are not an offence
		c, err := connect()
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	for range offenceFactor*maxConnections - 1 {
		if _, err := connect(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond)
	if len(told) != 0 {
		t.Fatalf("%+v", <-told)
	}
	_, _ = connect() // may be refused by then
	if o := <-told; o.Worker != worker || o.What != "opened 9 connections at the same time; the limit is 4" {
		t.Errorf("%+v", o)
	}
	until(t, "cut off", func() bool { return !mad.Connected() })
	if !honest.Connected() {
		t.Error("its neighbour was cut off")
	}
}

// Messages of the maximum length do not occupy the director's memory for good.
func TestFloodOfLongMessagesTakesNoMemory(t *testing.T) {
	const attackers = 8
	told := make(offences, attackers)
	const longest = 1<<20 - 4096
	b := told.open(t, longest)
	background(t, func(ctx context.Context) error {
		return b.Reports().Consume(ctx,
			inTurn(func(r Report) { _ = r.Ack() }))
	})
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	long := make([]byte, longest)
	var peak uint64
	for n := range attackers {
		mad := dialSocket(t, b, fmt.Sprintf("mad-%d", n))
		flood(t, mad, b.subjects.Worker(mad.options.WorkerID, wire.ChannelResult), long)
		<-told
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapInuse)
	}
	grown := (int64(peak) - int64(before.HeapInuse)) >> 20
	t.Logf("%d floods of 1 MiB messages: the heap grew by at most %d MiB", attackers, grown)
	if grown > 150 {
		t.Errorf("%d MiB more", grown)
	}
}

// A slow hello delays only its worker. Of the hellos that arrive during that time, the newest is answered.
func TestHelloWaitsForNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := openBus(t, Options{})
		var answered []string
		var mu sync.Mutex
		background(t, func(ctx context.Context) error {
			return b.ServeHello(ctx, func(w string, h wire.Hello) wire.Payload {
				if w == "slow-1" {
					time.Sleep(time.Second)
				}
				mu.Lock()
				defer mu.Unlock()
				answered = append(answered, w+" "+h.Worker.ImageTag)
				return welcome(h)
			})
		})
		synctest.Wait()
		slow, quick := dial(t, b, "slow-1"), dial(t, b, worker)
		for n := range 5 {
			h := helloOf("slow-1")
			h.Worker.ImageTag = fmt.Sprint(n)
			if err := slow.nc.PublishRequest(b.subjects.Worker("slow-1", wire.ChannelHello), wire.Inbox("slow-1")+".x",
				mustEncode(t, "slow-1", h)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		began := time.Now()
		if _, err := quick.Hello(ctxFor(t), hello()); err != nil || time.Since(began) > 0 {
			t.Errorf("answered after %s: %v", time.Since(began), err)
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if want := []string{worker + " ", "slow-1 0", "slow-1 4"}; !slices.Equal(answered, want) {
			t.Errorf("answered %q, want %q", answered, want)
		}
	})
}

// If far more heartbeats arrive at once than can be handled, the newest heartbeat of each worker is still delivered.
func TestNewestHeartbeatOfEachIsHeard(t *testing.T) {
	const workers, each = 1000, 20
	b := openBus(t, Options{})
	heard := make(map[string]int, workers)
	var mu sync.Mutex
	var calls atomic.Int64
	background(t, func(ctx context.Context) error {
		return b.WatchWorkers(ctx, func(w string, h wire.Heartbeat) {
			calls.Add(1)
			mu.Lock()
			defer mu.Unlock()
			heard[w] = max(heard[w], h.State.Attempt)
			if len(heard) == 1 {
				time.Sleep(100 * time.Millisecond) // the deciding goroutine is busy
			}
		}, func(string, wire.TaskProgress) {})
	})
	nc := b.nc // one connection publishes for all workers
	for n := range workers {
		b.intake.admit(fmt.Sprintf("w-%d", n))
	}
	began := time.Now()
	for beat := 1; beat <= each; beat++ {
		for n := range workers {
			w := fmt.Sprintf("w-%d", n)
			h := heartbeat()
			h.State.Attempt = beat
			if err := nc.Publish(b.subjects.Worker(w, wire.ChannelHeartbeat), mustEncode(t, w, h)); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "the newest of each", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for n := range workers {
			if heard[fmt.Sprintf("w-%d", n)] != each {
				return false
			}
		}
		return true
	})
	t.Logf("%d heartbeats of %d workers: %d handed out, the newest of each within %s", workers*each, workers,
		calls.Load(), time.Since(began).Round(time.Millisecond))
}

func TestDeadLettersOfOneSenderAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := openBus(t, Options{})
		mad, other := dial(t, b, worker), dial(t, b, "other-1")
		send := func(c *Client) {
			t.Helper()
			if err := errors.Join(c.nc.Publish(b.subjects.Worker(c.options.WorkerID, wire.ChannelError),
				[]byte("noise")), c.nc.Flush()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		for range 100 {
			send(mad)
		}
		send(other)
		kept := func() uint64 {
			stream, err := b.reports.js.Stream(ctxFor(t), streamDead)
			if err != nil {
				t.Fatal(err)
			}
			return stream.CachedInfo().State.Msgs
		}
		if n := totalDead(b); n != 101 || kept() != deadPerSender+1 {
			t.Errorf("%d counted, %d kept; want 101 and %d", n, kept(), deadPerSender+1)
		}
		time.Sleep(deadWindow)
		send(mad)
		if kept() != deadPerSender+2 {
			t.Errorf("%d kept an hour later", kept())
		}
	})
}
