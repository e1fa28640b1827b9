package workers

import (
	"context"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/loop"
	"retake/internal/fsm"
)

// Control sends control messages to workers.
type Control struct {
	Bus *bus.Bus
	Log *zap.Logger
}

// Send sends a worker a control message. It logs an error instead of returning it.
func (c *Control) Send(ctx context.Context, worker string, p wire.Payload) {
	if err := c.Bus.Send(ctx, worker, p); err != nil {
		c.Log.Debug("could not send control message", zap.String("worker", worker), zap.Error(err))
	}
}

// Executor returns an executor that sends a worker one control message.
func (c *Control) Executor(p wire.Payload) loop.Executor {
	return func(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
		c.Send(ctx, e.Worker, p)
		return fsm.EffectEnded{}
	}
}
