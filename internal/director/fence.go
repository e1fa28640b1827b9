package director

import (
	"context"
	"errors"
	"time"

	"retake/internal/audit"
	"retake/internal/container"
	"retake/internal/fsm"
)

// fences reports whether to fence an attempt whose stop failed with err: its runtime cannot confirm the end, and
// the order allows fencing now.
func (s *session) fences(o *fsm.StopOrder, err error) bool {
	return errors.Is(err, container.ErrUnconfirmed) && !o.FenceAt.IsZero() && !s.owner.Clock.Now().Before(o.FenceAt)
}

// lostOutput bounds the wait for the output of a fenced attempt, which may keep printing out of reach.
const lostOutput = time.Second

// lastOutput is finishOutput at the end of an attempt or after its fence.
func (s *session) lastOutput(ctx context.Context, e fsm.Effect, fenced bool) *audit.StoredOutput {
	if fenced {
		limited, cancel := context.WithTimeout(ctx, lostOutput)
		defer cancel()
		ctx = limited
	}
	return s.finishOutput(ctx, e)
}
