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

	"retake/internal/connlimit"
	"retake/internal/page"
)

// Limits of the HTTP server across all clients. A route that needs longer than webTime extends its deadline with
// http.ResponseController.
const (
	webTime  = 10 * time.Second // for reading and answering a request; equal to GitHub's timeout for a webhook
	webHead  = 5 * time.Second  // for reading a request's headers
	webConns = 256              // concurrent connections, see connlimit
)

// Route is one route at director.http_listen.
type Route struct {
	Pattern string // a pattern for http.ServeMux
	Handler http.Handler
}

// Loopback reports whether only this machine can reach an address.
func Loopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	return page.LocalName(host)
}

// ByLocalName protects an address of this machine against DNS rebinding. The Host of a request must be a name of this
// machine. Any other name may belong to a site that resolves to this machine, and a browser would let that site read
// our answers.
func ByLocalName(address string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if Loopback(address) && !page.LocalName(r.Host) {
			http.Error(w, "open this page as localhost or 127.0.0.1; a proxy must send one of these as the "+
				"Host header", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// Web is the HTTP server at director.http_listen. It outlives sessions.
type Web struct {
	listener net.Listener
	limiter  *connlimit.Limiter
	server   *http.Server
	served   sync.WaitGroup
}

// ListenHTTP listens at director.http_listen, or returns nil if address is empty. Requests wait for Serve.
func ListenHTTP(ctx context.Context, address string) (*Web, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("director: director.http_listen: %w; want an address of this machine with a free port",
			err)
	}
	limiter := connlimit.New(connlimit.Limits{Total: webConns}, nil)
	return &Web{listener: limiter.Listener(listener), limiter: limiter}, nil
}

// Serve starts answering requests. It is called once for all sessions, when the routes are ready. On a nil Web, it does
// nothing.
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
		Handler: w.limiter.Handler(mux), ConnState: w.limiter.State, ConnContext: w.limiter.Context,
		ReadHeaderTimeout: webHead, ReadTimeout: webTime, WriteTimeout: webTime, IdleTimeout: webTime,
		MaxHeaderBytes: 16 << 10,
		// unknown clients can cause many broken connections, which would flood the log
		ErrorLog: zap.NewStdLog(zap.NewNop()),
	}
	log.Info("listening", zap.String("address", "http://"+w.listener.Addr().String()), zap.Strings("paths", paths))
	w.served.Go(func() {
		if err := w.server.Serve(w.listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("server at director.http_listen failed; the director continues without it", zap.Error(err))
		}
	})
}

// Close interrupts pending requests and waits until the server has stopped.
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
