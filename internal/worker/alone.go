package worker

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"retake/internal/bus"
	"retake/internal/bus/wire"
)

// Alone returns a Dialer for a worker without a director. Its bus welcomes the worker at once, grants every lease, and
// writes the worker's reports to the given writer as lines of JSON.
func Alone(reports io.Writer) Dialer {
	return func(p *wire.Plan, _ Listener) (Bus, error) { return &alone{plan: p, reports: reports}, nil }
}

type alone struct {
	plan    *wire.Plan
	mu      sync.Mutex // guards reports and written
	reports io.Writer
	written uint64
}

func (a *alone) Hello(context.Context, wire.Hello) (wire.Payload, error) {
	return &wire.Welcome{ProtocolVersion: wire.ProtocolVersion, AttemptID: a.plan.AttemptID}, nil
}

func (a *alone) Report(_ context.Context, p wire.Payload) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.written++
	line, err := wire.EncodeWithin(sender(a.plan), a.written, time.Now(), p, a.plan.Bus.MaxMessageBytes)
	if err == nil {
		_, err = a.reports.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("worker: write report: %w", err)
	}
	return nil
}

func (a *alone) AskBudget(context.Context, wire.Payload) (wire.BudgetGrant, error) {
	return wire.BudgetGrant{GrantID: "alone", LeaseSeconds: a.plan.WatchdogSeconds}, nil
}

// errAlone is the answer to requests for a checkout.
var errAlone = &bus.RefusedError{
	Why:  wire.RefusedNotThere,
	Text: "without a director, the worker uses the checkout already in its workdir; remove checkout from the plan",
}

func (*alone) Chunk(context.Context, string) ([]byte, error) { return nil, errAlone }
func (*alone) PutChunk(context.Context, []byte) error        { return errAlone }
func (*alone) SaveCheckpoint(context.Context, wire.Checkpoint) ([]string, error) {
	return nil, errAlone
}

func (*alone) Heartbeat(wire.Heartbeat) error   { return nil }
func (*alone) Progress(wire.TaskProgress) error { return nil }
func (*alone) Connected() bool                  { return true }
func (*alone) Reconnects() uint64               { return 0 }
func (*alone) Close()                           {}
