package director

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"retake/internal/bus"
	"retake/internal/director/loop"
	"retake/internal/github/api"
	"retake/internal/metrics"
)

// openMetrics creates the counters and the handler for scrapes. The handler also calls readings, once open has
// connected it.
func (d *daemon) openMetrics(version string) {
	registry := prometheus.NewRegistry()
	d.metrics = metrics.New(registry, version)
	d.scrapes = d.metrics.Handler(registry)
}

// serveMetrics answers a scrape, even without a session or on a standby.
func (d *daemon) serveMetrics(w http.ResponseWriter, r *http.Request) { d.scrapes.ServeHTTP(w, r) }

// readings returns the metrics that do not depend on decisions. It does not query the owner, which may be busy.
func (d *daemon) readings() metrics.Readings {
	written, pace := d.audit.Counts(), d.github.API.Gate.Pace()
	r := metrics.Readings{
		DiskUsable: d.disk.Now().Unusable() == nil, ChangesLeft: pace.ChangesLeft, WaitingRequests: pace.Waiting,
		Webhooks: d.webhooks.Outcomes(), DeadLetters: map[string]uint64{},
		AuditDropped: written.Dropped, AuditWriteErrors: written.WriteErrors,
	}
	if session := d.current.Load(); session != nil {
		r.Late = session.Status.Owner.Late().By
	}
	if b := d.hub.Bus(); b != nil {
		r.BusConnected = b.Connected()
		for _, l := range b.DeadLetters() {
			r.DeadLetters[string(l.Cause)] = l.Total
		}
	}
	return r
}

// requested counts a request to GitHub.
func (d *daemon) requested(a api.Answered) {
	d.metrics.Requested(metrics.Request{
		Method: a.Method, Status: a.Status, Same: a.Same, Limited: a.Limited, Took: a.Took,
		Resource: a.Budget.Resource, Left: a.Budget.Left, Limit: a.Budget.Limit, Reset: a.Budget.Reset,
	})
}

// measuredJournal measures the duration of appends.
type measuredJournal struct {
	*bus.Journal
	metrics *metrics.Metrics
	before  func() // called before each append; may be nil
}

var _ loop.Journal = measuredJournal{}

// Append appends to the journal and measures the duration.
func (j measuredJournal) Append(ctx context.Context, batchID string, expectLast uint64, data []byte) (uint64, error) {
	j.metrics.AppendBegan()
	if j.before != nil {
		j.before()
	}
	seq, err := j.Journal.Append(ctx, batchID, expectLast, data)
	j.metrics.AppendEnded(err)
	return seq, err
}
