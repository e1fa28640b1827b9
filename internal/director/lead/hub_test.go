package lead

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/bus"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// Opening the bus on a hanging disk would block.
func TestTheBusIsNotOpenedOnADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		guard, bad := onBadDisk(t)
		goOn := bad.hangs()
		h := &Hub{
			Disk: guard, Say: func(error) {}, Log: zap.New(core),
			Connect: func(context.Context) (*bus.Bus, error) { return nil, errors.New("it was opened") },
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- h.Reopen(ctx) }()
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for _, e := range logs.FilterMessage("could not open bus").All() {
			if text := e.ContextMap()["error"].(string); !strings.Contains(text, "has not responded") &&
				!strings.Contains(text, "context canceled") {
				t.Errorf("the bus was opened: %s", text)
			}
		}
		goOn()
	})
}

// TestStartWaitsForTheBus checks that a start waits only for a joined server, and only if that does not answer.
func TestStartWaitsForTheBus(t *testing.T) {
	refused := errors.New("it rejects the keys")
	for name, c := range map[string]struct {
		joined  bool
		answers []error // the last one repeats
		want    error
		within  time.Duration
	}{
		"it comes back":         {true, []error{bus.ErrUnreachable, bus.ErrUnreachable, nil}, nil, 4 * time.Second},
		"it stays away":         {true, []error{bus.ErrUnreachable}, bus.ErrUnreachable, firstPatience},
		"it refuses":            {true, []error{refused}, refused, 0},
		"the server is our own": {false, []error{bus.ErrUnreachable}, bus.ErrUnreachable, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries, said := 0, 0
				h := &Hub{
					Joined: c.joined, DataDir: t.TempDir(), Say: func(error) { said++ }, Log: zap.NewNop(),
					Connect: func(context.Context) (*bus.Bus, error) {
						tries++
						return nil, c.answers[min(tries, len(c.answers))-1]
					},
				}
				began := time.Now()
				if err := h.Open(t.Context()); !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				if took := time.Since(began); took > c.within || said != min(tries-1, said) {
					t.Errorf("it took %s and said %d times that it waits, in %d tries", took, said, tries)
				}
			})
		})
	}
}
