package effects

import (
	"context"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/director/failure"
)

// revokeTimeout limits the wait for the bus. If the bus is unreachable, the revocation is sent again later.
const revokeTimeout = 5 * time.Second

// Credentials revokes workers' access to the bus.
type Credentials struct {
	Bus *bus.Bus
	Log *zap.Logger
}

// ShutOut revokes a worker's credential, and returns when the bus rejects further messages from the worker. The
// credential stays revoked after a restart. Messages that the bus has already accepted remain valid.
func (c *Credentials) ShutOut(ctx context.Context, worker string) error {
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	return failure.OnBus(c.Bus.Revoke(ctx, worker))
}

// Revoke revokes the credential of a worker that is gone. It logs an error instead of returning it.
func (c *Credentials) Revoke(ctx context.Context, worker string) {
	if err := c.ShutOut(ctx, worker); err != nil {
		c.Log.Warn("could not revoke a worker's credential; retrying", zap.String("worker", worker), zap.Error(err))
	}
}
