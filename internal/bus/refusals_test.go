package bus

import (
	"bytes"
	"context"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"retake/internal/bus/server"
	"retake/internal/bus/wire"
)

// Messages on subjects without a reader are refused, cost a few log lines, and are an offence if they continue.
func TestFloodOfWhatIsRefused(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zapcore.WarnLevel)
	told := make(offences, 2)
	b := openBus(t, Options{
		OnOffence: func(f Offence) { told <- f },
		Server:    startServer(t, server.Options{ListenHosts: []string{"127.0.0.1"}, Log: zap.New(core)}),
	})
	mad, honest := dialSocket(t, b, worker), dialSocket(t, b, "honest-1")
	subject := b.subjects.Worker(worker, wire.Channel(strings.Repeat("x", 1000)))
	took, sent := flood(t, mad, subject, nil)
	o := <-told
	t.Logf("cut off %s after it began, with %d sent and %d lines: %s", took.Round(time.Millisecond), sent, logged.Len(),
		o.What)
	if o.Worker != worker || !strings.Contains(o.What, "without permission") || logged.Len() > 50 {
		t.Errorf("%+v, %d lines", o, logged.Len())
	}
	if !honest.Connected() {
		t.Error("its neighbour was cut off")
	}
}

// Messages lost from a full backlog also count.
func TestLostMessagesAreAnOffence(t *testing.T) {
	told := make(offences, 2)
	b := told.open(t, 0)
	free := make(chan struct{})
	background(t, func(ctx context.Context) error {
		return b.intake.serve(ctx, classProgress, func(*gate, *nats.Msg) { <-free })
	})
	c := dialSocket(t, b, worker)
	until(t, "heard", func() bool {
		b.intake.mu.Lock()
		defer b.intake.mu.Unlock()
		return b.intake.handlers[classProgress] != nil
	})
	long := make([]byte, defaultMaxMessageBytes)
	for range 2 * pendingBytes / len(long) {
		if err := c.nc.Publish(b.subjects.Worker(worker, wire.ChannelProgress), long); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // until the director's client has received them
	close(free)
	if o := <-told; o.Worker != worker || !strings.Contains(o.What, "lost") {
		t.Errorf("%+v", o)
	}
}

// A client that does not read is disconnected before its messages use much memory.
func TestWhoDoesNotReadTakesLittleMemory(t *testing.T) {
	everywhere(t, func(t *testing.T, p *place) {
		o := p.tcp(t, worker)
		r := p.dialRaw(t)
		if got := r.signIn(o.JWT, o.Seed); got != "PONG" {
			t.Fatal(got)
		}
		r.send("SUB %s 1", p.subjects.Control(worker))
		r.send("PING")
		if got := r.line(); got != "PONG" {
			t.Fatal(got)
		}
		heap := func() int64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before := heap()
		for range 48 {
			if err := p.nc.Publish(p.subjects.Control(worker), make([]byte, 1<<20-1024)); err != nil {
				t.Fatal(err)
			}
			if err := p.nc.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		grown := (heap() - before) >> 20
		t.Logf("48 MiB for a client that does not read: %d MiB more", grown)
		if grown > 20 {
			t.Errorf("%d MiB more", grown)
		}
	})
}

// The server's limit on a client's pending data does not apply to the director.
func TestLongSnapshotsPassTheServersBound(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		data := make([]byte, 16<<20)
		source := rand.NewChaCha8([32]byte{})
		_, _ = source.Read(data)
		if err := p.Journal().SaveSnapshot(ctxFor(t), Head{Seq: 1}, data); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			var got []byte
			keep := func(state []byte) error { got = state; return nil }
			if at, err := p.Journal().LoadSnapshot(ctxFor(t), keep); err != nil || at.Seq != 1 ||
				!bytes.Equal(got, data) {
				t.Fatalf("%d bytes, %v, %v", len(got), at, err)
			}
		}
		if n := p.own.Stats().Reconnects; n != 0 {
			t.Errorf("disconnected %d times", n)
		}
	})
}
