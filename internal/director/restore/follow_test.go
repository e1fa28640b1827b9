package restore

import (
	"context"
	"testing"
)

// TestFollowResets checks that Follow clears the problem and the number of tasks from an earlier standby.
func TestFollowResets(t *testing.T) {
	r := &Restorer{}
	r.problem.Store(new("the journal cannot be followed: gone"))
	r.tasks.Store(7)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.Follow(ctx)
	if r.Problem() != "" || r.Tasks() != 0 {
		t.Errorf("got problem %q and %d tasks", r.Problem(), r.Tasks())
	}
}
