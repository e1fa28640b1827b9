package director

import (
	"context"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"retake/internal/director/intake"
	"retake/internal/director/offline"
	"retake/internal/director/operator"
	"retake/internal/director/serve"
	"retake/internal/fsm"
	"retake/internal/github/tracker"
	"retake/internal/page"
	"retake/internal/sys/hidden"
	"retake/internal/timeline"
)

// listenOperator opens the operator's socket once for all sessions, because a later session may find the disk
// unwritable.
func (d *daemon) listenOperator(ctx context.Context) error {
	if d.operator != nil {
		return nil
	}
	listener, err := serve.Listen(ctx, d.config.Director.DataDir)
	if err != nil {
		return err
	}
	d.operator = serve.NewSocket(listener, d.runID, http.HandlerFunc(d.serveMetrics), d.log)
	return nil
}

// serveOperator answers on the socket until ctx is done.
func (s *session) serveOperator(ctx context.Context) error {
	s.operator.Serve(ctx, serve.Session{
		Status: s.status, Timelines: s.timelines, TaskCommands: s.commands, Bus: s.bus, Outputs: s.outputs,
		Commands: &serve.Commands{Owner: s.owner, Health: s.status.Health, Log: s.log}, Reload: s.reload.ServeHTTP,
		Whole: &serve.WholeJournal{Bus: s.bus, Verify: offline.VerifyJournal, Log: s.log},
	}.Mux())
	return nil
}

// newAnswers creates the parts that answer the operator's socket and the page.
func (s *session) newAnswers() {
	fate := func(m *fsm.Machine, t *fsm.Task) string { return s.meeting.Fate(m, t, s.settings()) }
	refused := func() string { return serve.Refused(s.github) }
	held := func() string { return s.github.API.Gate.Pace().Held }
	s.status = &serve.Status{
		RunID: s.runID, Since: s.since, Only: s.only.Names(), Owner: s.owner, Views: s.views, Bus: s.bus, Disk: s.disk,
		Fate: fate, Leader: s.candidate.Me, Config: s.reload.State,
		Refused: refused, Held: held,
		Degraded: func() string { return serve.Degraded(&s.unusable, s.reload.Problem(), s.github) }, Meters: s.meters,
	}
	s.timelines = &serve.Timelines{
		Owner: s.owner, Views: s.views, Fate: fate, Refused: refused, Held: held, Rate: s.rate,
	}
	s.commands = &serve.TaskCommands{Owner: s.owner, Repositories: s.config.GitHub.Repositories}
	adder := &intake.Adder{
		Owner: s.owner, Offers: s.offers, Config: &s.inForce, Unusable: &s.unusable,
		GitHub: struct {
			*tracker.Reader
			*tracker.Writer
		}{s.github.Issues, s.github.Labels},
		Request: s.commands.Request, Ring: s.polls.Ring, NotWritten: serve.NotWritten, TooBusy: serve.TooBusy,
		Task: func(ctx context.Context, k fsm.IssueKey) (told timeline.Task, known bool, err error) {
			err = s.timelines.View(ctx, func(b *timeline.Book, now time.Time) { told, known = b.Task(k, now) })
			return told, known, err
		},
		Log: s.log,
	}
	s.commands.Offer = adder.Offer
}

// rate returns the number of deliveries in the last hour, or 0 if the director has not run for an hour.
func (s *session) rate() int {
	now := s.owner.Clock.Now()
	if now.Sub(s.since) < time.Hour {
		return 0
	}
	return s.delivered.LastHour(now)
}

// meters adds the counters that a snapshot shows.
func (s *session) meters(m map[string]float64) {
	looks, idle := s.reviews.Counts()
	m["reviews.looks"], m["reviews.idle"] = float64(looks), float64(idle)
	m[operator.MeterDelivered] = float64(s.delivered.LastHour(s.owner.Clock.Now()))
	m[operator.MeterContentLeft] = float64(s.github.API.Gate.Pace().ChangesLeft)
	s.webhooks.Meters(m)
	written := s.audit.Counts()
	m["audit.dropped"], m["audit.write_errors"] = float64(written.Dropped), float64(written.WriteErrors)
}

// standBy follows the journal and answers the operator's socket while another director leads. It starts goroutines
// for this, and returns a function that stops them and waits until they have ended.
func (d *daemon) standBy(ctx context.Context) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { d.restorer.Follow(ctx) })
	running.Go(func() { d.disk.Watch(ctx) })
	if err := d.listenOperator(ctx); err != nil {
		d.log.Warn("this standby cannot answer queries", zap.Error(err))
	} else {
		answers := &serve.Standby{
			RunID: d.runID, Since: d.since, Bus: d.hub.Bus(), Disk: d.disk, Leader: d.candidate.Other,
			Tasks: d.restorer.Tasks, Follows: d.restorer.Problem, Config: d.reload.State, Reload: d.reload.ServeHTTP,
		}
		running.Go(func() { d.operator.Serve(ctx, answers.Mux()) })
	}
	return func() { stop(); running.Wait() }
}

// routes lists the routes at director.http_listen. Leader and standby have the same routes.
func (d *daemon) routes() []serve.Route {
	all := []serve.Route{{Pattern: "GET " + operator.MetricsPath, Handler: d.readAccess().ForMetrics(d.serveMetrics)}}
	for _, path := range []string{operator.HealthPath, operator.ReadyPath, operator.LivePath} {
		all = append(all, serve.Route{
			Pattern: "GET " + path, Handler: serve.ByLocalName(d.config.Director.HTTPListen, d.operator.Probe),
		})
	}
	if d.webhooks.Enabled() {
		all = append(all, serve.Route{Pattern: "POST " + intake.WebhookPath, Handler: d.webhooks})
	}
	if d.page != nil {
		all = append(all, serve.Route{Pattern: "/", Handler: d.page})
	}
	return all
}

func (d *daemon) readAccess() serve.ReadAccess {
	return serve.ReadAccess{
		Address: d.config.Director.HTTPListen,
		Page:    func() (string, error) { return d.config.PageToken(hidden.Lookup) },
		Metrics: func() (string, error) { return d.config.MetricsToken(hidden.Lookup) },
	}
}

// openPage creates the page, or returns nil if director.http_listen is empty.
func (d *daemon) openPage() (*page.Page, error) {
	if d.config.Director.HTTPListen == "" {
		return nil, nil
	}
	access := d.readAccess()
	switch value, err := access.Page(); {
	case value == "" && !serve.Loopback(access.Address):
		d.log.Warn("the page is not served, because director.http_listen is reachable from other machines, and "+
			"director.page_token_env and page_token_file do not provide a token", zap.Error(err))
		return nil, nil
	case err != nil:
		d.log.Warn("the page is unavailable until its token can be read", zap.Error(err))
	}
	return page.New(page.Options{
		Source: func() page.Source {
			if s := d.current.Load(); s != nil {
				return s
			}
			return nil
		},
		Token: access.Page, CheckName: operator.CheckRequester, Open: access.Open, Fleet: d.config.Director.Fleet,
		Log: d.log,
	})
}
