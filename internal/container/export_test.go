package container

import (
	"context"
	"time"
)

// CreateOnly does the part of Ensure before it copies files and starts the container, like an interrupted Ensure.
func (d *Docker) CreateOnly(ctx context.Context, spec Spec) (string, error) {
	return d.create(ctx, spec)
}

// CheckFenceOften makes the firewall look for new relays every 50 ms.
func (d *Docker) CheckFenceOften() { d.limits.fence = 50 * time.Millisecond }

// AwaitBrokenStreams waits until the goroutine that reads the attempt's streams has ended.
func (d *Docker) AwaitBrokenStreams(attemptID string) {
	<-d.attempts.entry(attemptID).state.streams.done
}

// AgeFence makes the installed rules so old that the next start renews them.
func (d *Docker) AgeFence() {
	d.firewall.mu.Lock()
	defer d.firewall.mu.Unlock()
	d.firewall.state.at = time.Now().Add(-fenceAge)
}

// FenceBridge returns the bridge that the rules name.
func (d *Docker) FenceBridge() string {
	d.firewall.mu.Lock()
	defer d.firewall.mu.Unlock()
	return d.firewall.state.bridge
}
