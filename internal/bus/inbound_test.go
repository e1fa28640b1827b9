package bus

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"retake/internal/bus/wire"
)

// Silent workers cost no goroutines, however many there are. When they send messages, these are delivered in order, one
// at a time.
func TestQuietWorkersTakeNoGoroutines(t *testing.T) {
	const workers, each = 200, 20
	b := openBus(t, Options{})
	type heard struct {
		worker string
		size   int
	}
	all := make(chan heard, workers*each)
	background(t, func(ctx context.Context) error {
		return b.intake.serve(ctx, classProgress, func(g *gate, m *nats.Msg) { all <- heard{g.worker, len(m.Data)} })
	})
	background(t, func(ctx context.Context) error {
		return b.ServeHello(ctx, func(_ string, h wire.Hello) wire.Payload { return welcome(h) })
	})
	until(t, "all lines", func() bool {
		b.intake.mu.Lock()
		defer b.intake.mu.Unlock()
		return b.intake.handlers[classProgress] != nil && b.intake.handlers[classHello] != nil
	})
	name := func(n int) string { return fmt.Sprintf("w-%d", n) }
	before := runtime.NumGoroutine()
	var names []string
	for n := range workers {
		names = append(names, name(n))
	}
	b.Admit(names...)
	if more := runtime.NumGoroutine() - before; more > workers/2 {
		t.Errorf("%d workers were admitted, and there are %d goroutines more", workers, more)
	}
	for size := range each {
		for n := range workers {
			if err := b.nc.Publish(b.subjects.Worker(name(n), wire.ChannelProgress), make([]byte, size)); err != nil {
				t.Fatal(err)
			}
		}
	}
	sizes := map[string]int{}
	for range workers * each {
		select {
		case h := <-all:
			if h.size != sizes[h.worker] {
				t.Fatalf("message %d of %s comes before message %d", h.size, h.worker, sizes[h.worker])
			}
			sizes[h.worker]++
		case <-time.After(time.Minute):
			t.Fatal("lost")
		}
	}
	until(t, "the goroutines to end", func() bool { return runtime.NumGoroutine()-before < workers/2 })
	for n := range workers {
		b.intake.dismiss(name(n))
	}
	if left := len(b.intake.sources) + len(b.intake.users) + len(b.intake.gates); left != 0 {
		t.Errorf("%d entries of departed workers remain", left)
	}
}
