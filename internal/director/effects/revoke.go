package effects

import (
	"context"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/director/failure"
)

// revokeTimeout bounds the wait for the bus. What the bus does not know yet, it is told once it can be reached.
const revokeTimeout = 5 * time.Second

// Credentials shuts workers out of the bus.
type Credentials struct {
	Bus *bus.Bus
	Log *zap.Logger
}

// ShutOut returns once the bus takes nothing more from a worker: its credential is good for nothing, now and after a
// restart. What it has sent before stays, and counts.
func (c *Credentials) ShutOut(ctx context.Context, worker string) error {
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	return failure.OnBus(c.Bus.Revoke(ctx, worker))
}

// Revoke is ShutOut for a worker that is gone: a bus that does not answer is no obstacle.
func (c *Credentials) Revoke(ctx context.Context, worker string) {
	if err := c.ShutOut(ctx, worker); err != nil {
		c.Log.Warn("a worker's credential is good until the bus is told", zap.String("worker", worker), zap.Error(err))
	}
}
