package container

import "context"

// CreateOnly is an Ensure that was cut off before it copied and started anything.
func (d *Docker) CreateOnly(ctx context.Context, spec Spec) (string, error) {
	return d.create(ctx, spec)
}

// AwaitBrokenStreams waits until nobody reads the attempt's streams any more.
func (d *Docker) AwaitBrokenStreams(attemptID string) {
	<-d.attempts.entry(attemptID).state.streams.done
}
