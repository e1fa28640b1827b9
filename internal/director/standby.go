package director

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/director/disk"
	"retake/internal/director/lead"
	"retake/internal/director/operator"
)

// standby is a director that follows the leader.
type standby struct {
	*daemon
	stop    context.CancelFunc
	stopped sync.WaitGroup
}

func (d *daemon) standBy(ctx context.Context) (end func()) {
	b := &standby{daemon: d}
	ctx, b.stop = context.WithCancel(ctx)
	b.stopped.Go(func() { b.restorer.Follow(ctx) })
	b.stopped.Go(func() { b.watchDisk(ctx) })
	if err := d.listenOperator(ctx); err != nil {
		d.log.Warn("nobody can ask this standby", zap.Error(err))
		return b.end
	}
	b.stopped.Go(func() { d.operator.Serve(ctx, b.mux()) })
	return b.end
}

func (b *standby) end() {
	b.stop()
	b.stopped.Wait()
}

// watchDisk checks the disk of the data directory, which this director needs in order to lead.
func (b *standby) watchDisk(ctx context.Context) {
	for ctx.Err() == nil {
		if l := b.disk.Ask(ctx, true, disk.Slow); ctx.Err() == nil {
			b.disk.Keep(l)
		}
		select {
		case <-time.After(disk.ProbeEvery):
		case <-ctx.Done():
		}
	}
}

func (b *standby) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+operator.LivePath, func(w http.ResponseWriter, _ *http.Request) {
		operator.Respond(w, http.StatusOK, operator.Health{RunID: b.runID, Phase: operator.PhaseStandby})
	})
	mux.HandleFunc("GET "+operator.HealthPath, func(w http.ResponseWriter, _ *http.Request) {
		h := operator.Health{
			RunID: b.runID, Phase: operator.PhaseStandby, Tasks: b.restorer.Tasks(), Problem: b.problem(),
			Leader: lead.Leadership(b.candidate.Other()),
		}
		status := http.StatusOK
		if h.OK = h.Problem == ""; !h.OK {
			status = http.StatusServiceUnavailable
		}
		operator.Respond(w, status, h)
	})
	mux.HandleFunc("GET /snapshot", func(w http.ResponseWriter, _ *http.Request) {
		var s wire.Snapshot
		s.Director = wire.SnapshotDirector{
			RunID: b.runID, Phase: operator.PhaseStandby, Since: wire.At(b.since),
			Leadership: lead.Leadership(b.candidate.Other()), Problem: b.problem(), Config: b.configState(),
		}
		operator.Respond(w, http.StatusOK, s)
	})
	mux.HandleFunc("POST /reload", b.reload)
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		no := operator.Refusal{Problem: "this director stands by, and no other one leads yet: ask again"}
		if l := b.candidate.Other(); l != nil {
			no.Problem = fmt.Sprintf("this director stands by: ask the one that leads, %s on %s with "+
				"director.data_dir %s", l.RunID, l.Host, l.DataDir)
		}
		operator.Respond(w, http.StatusConflict, no)
	}
	mux.HandleFunc("POST /", refuse)
	mux.HandleFunc("PUT /", refuse)
	return mux
}

// problem returns what prevents the standby from leading, or "".
func (b *standby) problem() string {
	switch bad := b.disk.Now().Unusable(); {
	case bad != nil:
		return bad.Error()
	case !b.hub.Bus().Connected():
		return busAway
	}
	return b.restorer.Problem()
}
