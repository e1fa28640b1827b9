package director

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/container"
)

// fakeWorker is one running "container".
type fakeWorker struct {
	plan     wire.Plan
	spec     container.Spec
	checkout string
	client   *bus.Client
	stop     chan string            // reasons of the director's stop messages
	behind   chan wire.SyncRequired // the director's warnings that the checkout is behind

	printed []container.Printed // output so far; guarded by the runtime's mu
	lost    atomic.Bool         // its node is lost: heartbeats stop, and its end cannot be confirmed
	runs    atomic.Bool         // it has started, because the cluster has room

	task   string
	kill   context.CancelFunc
	ended  bool
	exit   int
	signal string
}

// dial connects to the bus, and subscribes to the director's messages. The caller may retry after an error, as a real
// worker does, because the bus may be unavailable for a while.
func (a *fakeWorker) dial() (*bus.Client, error) {
	b := a.plan.Bus
	client, err := bus.Dial(bus.ClientOptions{
		URL: b.URL, JWT: b.JWT, Seed: b.Seed, CA: b.CA, Prefix: b.Prefix, WorkerID: a.plan.WorkerID,
		MaxMessageBytes: b.MaxMessageBytes,
		Key:             a.plan.SignKey,
	})
	if err != nil {
		return nil, err
	}
	err = client.OnControl(func(c bus.Command) {
		switch p := c.Payload.(type) {
		case *wire.Stop:
			a.stop <- p.Reason
		case *wire.Probe:
			if !a.lost.Load() {
				_ = c.Reply(a.heartbeat())
			}
		case *wire.SyncRequired:
			a.behind <- *p
		}
	})
	if err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

func (a *fakeWorker) heartbeat() wire.Heartbeat {
	return wire.Heartbeat{State: wire.HeartbeatState{
		Stage: wire.StageCode, IssueNumber: a.plan.Issue.Number, Attempt: a.plan.Attempt,
		LastUpdateAt: wire.At(time.Now()),
	}}
}

// work changes the checkout and reports a success.
func (a *fakeWorker) work(ctx context.Context) int {
	name := filepath.Join(a.checkout, fmt.Sprintf("work-%d.txt", a.plan.Attempt))
	if err := os.WriteFile(name, []byte("done\n"), 0o644); err != nil {
		return 1
	}
	return a.succeed(ctx)
}

// succeed writes a success to the spool and reports it.
func (a *fakeWorker) succeed(ctx context.Context) int {
	if err := a.spool(a.plan.WorkerID+".0001.json", a.plan.SignKey); err != nil {
		return 1
	}
	for ctx.Err() == nil {
		err := a.client.Report(ctx, &wire.WorkerResult{
			ResultID: a.plan.WorkerID + "/result", AttemptID: a.plan.WorkerID, IssueNumber: a.plan.Issue.Number,
			Attempt: a.plan.Attempt, Outcome: wire.OutcomeOK,
		})
		if err == nil {
			return 0
		}
		select { // the bus is unavailable, and Report fails at once, so wait before the next try
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return 1
}
