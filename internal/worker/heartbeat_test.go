package worker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestHeartbeatsKeepTheirInterval measures the time between heartbeats while two stages run. It must never exceed
// the 15 s that the director asks for, and may be shorter only where a stage begins.
func TestHeartbeatsKeepTheirInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := newFakeBus()
		if code := testWorker(t, testPlan(t), bus, &fakeRunner{script: []exit{minute(0), minute(0)}}).
			run(t.Context()); code != ExitResult {
			t.Fatalf("exit %d", code)
		}
		var last time.Time
		lastStage, regular := "", 0
		for i, what := range bus.story() {
			stage, ok := strings.CutPrefix(what, "heartbeat ")
			if !ok {
				continue
			}
			gap := bus.at[i].Sub(last)
			switch {
			case last.IsZero() || stage != lastStage:
			case gap != 15*time.Second:
				t.Errorf("%s between two heartbeats in %s", gap, stage)
			default:
				regular++
			}
			if !last.IsZero() && gap > 15*time.Second {
				t.Errorf("%s without a heartbeat before %s", gap, stage)
			}
			last, lastStage = bus.at[i], stage
		}
		if regular < 4 {
			t.Errorf("only %d regular heartbeats in two minutes: %q", regular, bus.story())
		}
	})
}
