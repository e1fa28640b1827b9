// Package workers exchanges messages with running workers: heartbeats, hellos, control messages, model leases, and
// warnings. Package reports reads the reports that end attempts.
//
// Messages to a worker are hints, and the runtime enforces decisions. An event from the runtime only makes the director
// read the list of containers, because only that list is authoritative.
package workers

import (
	"context"

	"retake/internal/director/loop"
	"retake/internal/fsm"
)

// Live returns copies of the tasks with a live worker, or none when the session is over.
func Live(ctx context.Context, owner *loop.Owner) []fsm.Task {
	tasks, _ := loop.Look(ctx, owner, func(d *fsm.Driver) (out []fsm.Task) {
		for _, t := range d.Machine().Tasks() {
			if t.State.Info().Live && !t.UpAt.IsZero() {
				out = append(out, *t)
			}
		}
		return out
	})
	return tasks
}
