package director

import (
	"context"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/failure"
)

// leaderMarker is a runtime that shows others which director leads. A cluster's Services route people, webhooks and
// attempts to that director.
type leaderMarker interface {
	MarkLeader(ctx context.Context, leads bool) error
}

// unmarkFor bounds the time for removing the mark at the end of a term.
const unmarkFor = 5 * time.Second

// markLeader makes the runtime show that this director leads, for as long as the term lasts. It retries in the
// background, because leading does not depend on the mark.
func (d *daemon) markLeader(t *term) {
	m, ok := d.runtime.(leaderMarker)
	if !ok || t.lease == nil {
		return
	}
	t.ended.Go(func() {
		err := failure.Retry(t.ctx, failure.Pauses(time.Second, time.Minute), 0,
			func() error { return m.MarkLeader(t.ctx, true) },
			func(err error, pause time.Duration) {
				d.log.Warn("others do not find the director that leads", zap.Error(err), zap.Duration("in", pause))
			})
		if err == nil {
			<-t.ctx.Done()
		}
		d.unmarkLeader(context.WithoutCancel(t.ctx))
	})
}

// unmarkLeader removes the mark of an earlier term, or of an earlier process in the same place.
func (d *daemon) unmarkLeader(ctx context.Context) {
	m, ok := d.runtime.(leaderMarker)
	if !ok || d.config.AgentBus.URL == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, unmarkFor)
	defer cancel()
	if err := m.MarkLeader(ctx, false); err != nil {
		d.log.Warn("others may take this director for the one that leads", zap.Error(err))
	}
}
