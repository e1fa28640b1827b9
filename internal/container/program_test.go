package container

import (
	"context"
	"net/http"
	"testing"
	"time"

	"retake/internal/container/fence"
)

// TestWhoIsInterruptedLeavesNothing: an interrupted call removes its container, because an engine creates the container
// even if its client disconnects.
func TestWhoIsInterruptedLeavesNothing(t *testing.T) {
	for name, try := range map[string]func(context.Context, *Docker, Spec) error{
		"the program's helper": func(ctx context.Context, d *Docker, s Spec) error {
			return d.programs.provide(ctx, s.Image, program{s.WorkerBinary, "v"})
		},
		"the firewall": func(ctx context.Context, d *Docker, s Spec) error {
			d.firewall.state.egress = &Egress{Image: s.Image, WorkerBinary: s.WorkerBinary}
			return d.firewall.handOver(ctx, fence.Task{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			removed := 0
			d := openFake(t, answers{
				"GET /volumes/v":       say(http.StatusOK, `{"Name":"v"}`),
				"GET /containers/json": say(http.StatusOK, "[]"),
				"POST /containers/create": func(w http.ResponseWriter, r *http.Request) {
					interrupt()
					time.Sleep(50 * time.Millisecond) // gives an interruptible caller time to return
					say(http.StatusCreated, `{"Id":"c1"}`)(w, r)
				},
				"DELETE /containers/c1": func(w http.ResponseWriter, _ *http.Request) {
					removed++
					w.WriteHeader(http.StatusNoContent)
				},
			})
			if err := try(ctx, d, specWithInput(t, nil)); err == nil {
				t.Error("the interrupted call returned no error")
			}
			if removed != 1 {
				t.Errorf("removed %d times, want once", removed)
			}
		})
	}
}

// TestInterruptedFirewallIsNoWarning: an interruption is not reported as a failure to install the rules.
func TestInterruptedFirewallIsNoWarning(t *testing.T) {
	d, logs := openAttached(t, nil)
	d.firewall.state.egress, d.net.inUse.id = &Egress{}, "n1"
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if d.Warm(ctx); d.firewall.state.warned || d.firewall.state.network != "" || logs.Len() > 0 {
		t.Errorf("warned %v, network %q, logged %v", d.firewall.state.warned, d.firewall.state.network, logs.All())
	}
}
