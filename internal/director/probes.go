package director

import (
	"context"
	"net/http"
	"time"

	"retake/internal/director/intake"
	"retake/internal/director/loop"
	"retake/internal/director/operator"
	"retake/internal/director/serve"
	"retake/internal/fsm"
)

// live answers whether the owner responds. The bus, the disk and GitHub may be away.
func (s *session) live(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	_, err := loop.Look(ctx, s.owner, func(*fsm.Driver) struct{} { return struct{}{} })
	if err != nil && ctx.Err() != nil { // any other error means that the session is over
		operator.Respond(w, http.StatusServiceUnavailable, operator.Health{RunID: s.runID, Problem: s.unwell(err, "")})
		return
	}
	operator.Respond(w, http.StatusOK, operator.Health{OK: true, RunID: s.runID})
}

// routes lists what is served at director.http_listen, by leader and standby alike. A handler that needs one of
// them says so in its answer.
func (d *daemon) routes() []serve.Route {
	local := func(next http.HandlerFunc) http.Handler { return serve.ByLocalName(d.config.Director.HTTPListen, next) }
	all := []serve.Route{{Pattern: "GET " + operator.MetricsPath, Handler: local(d.serveMetrics)}}
	for _, path := range []string{operator.HealthPath, operator.LivePath} {
		all = append(all, serve.Route{Pattern: "GET " + path, Handler: local(d.operator.Probe)})
	}
	if d.webhooks.Enabled() {
		all = append(all, serve.Route{Pattern: "POST " + intake.WebhookPath, Handler: d.webhooks})
	}
	if d.page != nil {
		all = append(all, serve.Route{Pattern: "/", Handler: d.page})
	}
	return all
}
