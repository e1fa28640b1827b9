package container

import (
	"context"
	"time"
)

// CreateOnly is an Ensure that was interrupted before it copied files and started the container.
func (d *Docker) CreateOnly(ctx context.Context, spec Spec) (string, error) {
	return d.create(ctx, spec)
}

// CheckFenceOften lets the firewall notice relays at once.
func (d *Docker) CheckFenceOften() { d.limits.fence = 50 * time.Millisecond }

// AwaitBrokenStreams waits until the attempt's streams have no reader.
func (d *Docker) AwaitBrokenStreams(attemptID string) {
	<-d.attempts.entry(attemptID).state.streams.done
}
