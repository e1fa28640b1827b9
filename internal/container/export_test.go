package container

import (
	"context"
	"time"
)

// CreateOnly does the part of Ensure before it copies files and starts the container, like an interrupted Ensure.
func (d *Docker) CreateOnly(ctx context.Context, spec Spec) (string, error) {
	return d.create(ctx, spec)
}

// CheckFenceOften lets the firewall notice relays at once.
func (d *Docker) CheckFenceOften() { d.limits.fence = 50 * time.Millisecond }

// AwaitBrokenStreams waits until the attempt's streams have no reader.
func (d *Docker) AwaitBrokenStreams(attemptID string) {
	<-d.attempts.entry(attemptID).state.streams.done
}
