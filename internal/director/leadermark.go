package director

import (
	"context"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/failure"
)

// leaderMarker is a runtime by which others find the director that leads: a cluster's Services lead people,
// webhooks and attempts there.
type leaderMarker interface {
	MarkLeader(ctx context.Context, leads bool) error
}

// unmarkFor bounds how long the end of a term takes for it.
const unmarkFor = 5 * time.Second

// markLeader has the runtime show, for as long as the term lasts, that this director leads. It tries again: the
// lead does not depend on it.
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

// unmarkLeader takes back what an earlier term, or a process of before in the same place, has shown.
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
