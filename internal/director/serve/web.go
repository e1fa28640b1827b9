package serve

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

	"retake/internal/page"
)

// Bounds of the HTTP server, whoever asks. A route whose answer takes longer than webTime lifts its own
// deadline: http.ResponseController.
const (
	webTime  = 10 * time.Second // for a whole request; GitHub gives up its webhooks then, too
	webConns = 256              // at the same time
)

// Route is one thing that is served at director.http_listen.
type Route struct {
	Pattern string // of http.ServeMux
	Handler http.Handler
}

// Loopback reports whether only this machine reaches an address.
func Loopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	return page.LocalName(host)
}

// ByLocalName answers, at an address of this machine, only those who ask for it by a name of this machine. Any other
// name belongs to a foreign site that resolves to here, so that a browser hands it what only this machine should read.
func ByLocalName(address string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if Loopback(address) && !page.LocalName(r.Host) {
			http.Error(w, "ask for it by the name of this machine, localhost or 127.0.0.1: a proxy sets "+
				"that as the Host", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// Web is the HTTP server at director.http_listen, for all sessions.
type Web struct {
	listener net.Listener
	server   *http.Server
	served   sync.WaitGroup
}

// ListenHTTP takes the address of director.http_listen; nil if it is empty. Nothing is answered before Serve.
func ListenHTTP(ctx context.Context, address string) (*Web, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("director: director.http_listen: %w; want an address of this machine whose port "+
			"nobody else uses", err)
	}
	return &Web{listener: netutil.LimitListener(listener, webConns)}, nil
}

// Serve begins to answer, once for all sessions: what the routes read must be there. A nil Web serves nothing.
func (w *Web) Serve(routes []Route, log *zap.Logger) {
	if w == nil {
		return
	}
	mux, paths := http.NewServeMux(), []string{}
	for _, r := range routes {
		mux.Handle(r.Pattern, r.Handler)
		_, path, _ := strings.Cut(r.Pattern, " ")
		paths = append(paths, path)
	}
	w.server = &http.Server{
		Handler: mux, ReadTimeout: webTime, WriteTimeout: webTime, IdleTimeout: webTime, MaxHeaderBytes: 16 << 10,
		ErrorLog: zap.NewStdLog(zap.NewNop()), // of connections that break: anybody can make as many as they like
	}
	log.Info("listening", zap.String("address", "http://"+w.listener.Addr().String()), zap.Strings("paths", paths))
	w.served.Go(func() {
		if err := w.server.Serve(w.listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("nothing is served at director.http_listen any more; the director goes on", zap.Error(err))
		}
	})
}

// Close interrupts whoever waits for an answer.
func (w *Web) Close() error {
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
