package lead

import (
	"context"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/failure"
)

// Marker is a runtime that can publish which director leads. A cluster's Services then route people, webhooks and
// attempts to that director.
type Marker interface {
	MarkLeader(ctx context.Context, leads bool) error
}

// unmarkFor is the time limit for removing the mark at the end of a term.
const unmarkFor = 5 * time.Second

// mark publishes, for the duration of the term, that this director leads. It retries in the background, because leading
// does not depend on the mark.
func (c *Candidate) mark(t *Term) {
	if c.Marker == nil || t.lease == nil {
		return
	}
	t.ended.Go(func() {
		err := failure.Retry(t.ctx, failure.Pauses(time.Second, time.Minute), 0,
			func() error { return c.Marker.MarkLeader(t.ctx, true) },
			func(err error, pause time.Duration) {
				c.Log.Warn("could not write leader mark; other directors cannot find this one",
					zap.Error(err), zap.Duration("in", pause))
			})
		if err == nil {
			<-t.ctx.Done()
		}
		c.unmark(context.WithoutCancel(t.ctx))
	})
}

// unmark removes the mark left by an earlier term or process with the same data directory.
func (c *Candidate) unmark(ctx context.Context) {
	if c.Marker == nil || !c.Joined {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, unmarkFor)
	defer cancel()
	if err := c.Marker.MarkLeader(ctx, false); err != nil {
		c.Log.Warn("could not remove leader mark", zap.Error(err))
	}
}
