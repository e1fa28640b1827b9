package director

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"retake/internal/director/intake"
	"retake/internal/director/operator"
	"retake/internal/page"
)

// Bounds of the HTTP server, whoever asks. A route whose answer takes longer than webTime lifts its own
// deadline: http.ResponseController.
const (
	webTime  = 10 * time.Second // for a whole request; GitHub gives up its webhooks then, too
	webConns = 256              // at the same time
)

// route is one thing that is served at director.http_listen.
type route struct {
	pattern string // of http.ServeMux
	handler http.Handler
}

// routes is the table of what is served at director.http_listen, by a leader and a standby alike: what only one
// of them can do says so itself.
func (d *daemon) routes() []route {
	all := []route{{"GET " + operator.MetricsPath, d.byLocalName(d.serveMetrics)}}
	for _, path := range []string{operator.HealthPath, operator.LivePath} {
		all = append(all, route{"GET " + path, d.byLocalName(d.operator.probe)})
	}
	if d.webhooks.Enabled() {
		all = append(all, route{"POST " + intake.WebhookPath, d.webhooks})
	}
	if d.page != nil {
		all = append(all, route{"/", d.page})
	}
	return all
}

// loopback reports whether only this machine reaches director.http_listen.
func (d *daemon) loopback() bool {
	host, _, _ := net.SplitHostPort(d.config.Director.HTTPListen)
	return page.LocalName(host)
}

// byLocalName answers, at an address of this machine, only who asks for it by a name of this machine: another
// one is that of a foreign site that has had it resolved to here, to read in somebody's browser what only this
// machine should.
func (d *daemon) byLocalName(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if d.loopback() && !page.LocalName(r.Host) {
			http.Error(w, "ask for it by the name of this machine, localhost or 127.0.0.1: a proxy sets "+
				"that as the Host", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// web is the HTTP server at director.http_listen, for all sessions.
type web struct {
	listener net.Listener
	server   *http.Server
	served   sync.WaitGroup
}

// listenHTTP takes the address of director.http_listen, if there is one. Nothing is answered before serveHTTP.
func (d *daemon) listenHTTP(ctx context.Context) error {
	address := d.config.Director.HTTPListen
	if address == "" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("director: director.http_listen: %w; want an address of this machine whose port "+
			"nobody else uses", err)
	}
	d.web = &web{listener: netutil.LimitListener(listener, webConns)}
	return nil
}

// serveHTTP begins to answer, once for all sessions: what the routes read must be there.
func (d *daemon) serveHTTP() {
	if d.web == nil {
		return
	}
	mux, paths := http.NewServeMux(), []string{}
	for _, r := range d.routes() {
		mux.Handle(r.pattern, r.handler)
		_, path, _ := strings.Cut(r.pattern, " ")
		paths = append(paths, path)
	}
	d.web.server = &http.Server{
		Handler: mux, ReadTimeout: webTime, WriteTimeout: webTime, IdleTimeout: webTime, MaxHeaderBytes: 16 << 10,
		ErrorLog: zap.NewStdLog(zap.NewNop()), // of connections that break: anybody can make as many as they like
	}
	d.log.Info("listening", zap.String("address", "http://"+d.web.listener.Addr().String()),
		zap.Strings("paths", paths))
	d.web.served.Go(func() {
		if err := d.web.server.Serve(d.web.listener); !errors.Is(err, http.ErrServerClosed) {
			d.log.Error("nothing is served at director.http_listen any more; the director goes on", zap.Error(err))
		}
	})
}

// close interrupts whoever waits for an answer.
func (w *web) close() error {
	switch {
	case w == nil:
		return nil
	case w.server == nil:
		return w.listener.Close()
	}
	err := w.server.Close()
	w.served.Wait()
	return err
}
