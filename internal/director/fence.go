package director

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"retake/internal/audit"
	"retake/internal/container"
	"retake/internal/fsm"
)

// fences reports whether an attempt whose stop failed with err is to be fenced now: its runtime cannot confirm
// the end, and the order allows a fence.
func (s *session) fences(o *fsm.StopOrder, err error) bool {
	return errors.Is(err, container.ErrUnconfirmed) && !o.FenceAt.IsZero() && !s.owner.Clock.Now().Before(o.FenceAt)
}

// lostOutput bounds the wait for the output of a fenced attempt, which may go on for ever where nobody hears it.
const lostOutput = time.Second

// lastOutput is finishOutput at an attempt's end, or after its fence.
func (s *session) lastOutput(ctx context.Context, e fsm.Effect, fenced bool) *audit.StoredOutput {
	if fenced {
		limited, cancel := context.WithTimeout(ctx, lostOutput)
		defer cancel()
		ctx = limited
	}
	return s.finishOutput(ctx, e)
}

// clusterSays is what a runtime that places attempts by itself says of an end, for people.
func clusterSays(x container.Exit) string {
	return fmt.Sprintf("the cluster on the worker's end: %s", cmp.Or(x.Words, string(x.Cause)))
}
