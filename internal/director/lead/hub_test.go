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
