package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/director/operator"
)

// Socket serves the operator's socket while the director runs. Without a session, it answers with the reason.
type Socket struct {
	server  *http.Server
	ended   chan struct{}
	session atomic.Pointer[http.ServeMux]
	problem atomic.Pointer[string]
}

// NewSocket starts to serve a socket. Metrics are available at once.
func NewSocket(listener net.Listener, runID string, metrics http.Handler, log *zap.Logger) *Socket {
	o := &Socket{ended: make(chan struct{})}
	since := wire.At(time.Now())
	o.Say(errors.New("the director is starting"))
	o.server = &http.Server{
		ReadHeaderTimeout: 5 * time.Second, ConnContext: withConn,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == operator.MetricsPath { // metrics do not need a session
				metrics.ServeHTTP(w, r)
				return
			}
			if mux := o.session.Load(); mux != nil {
				mux.ServeHTTP(w, r)
				return
			}
			if r.URL.Path == "/snapshot" {
				operator.Respond(w, http.StatusServiceUnavailable, wire.Snapshot{Director: wire.SnapshotDirector{
					RunID: runID, Phase: operator.PhaseStarting, Since: since, Problem: *o.problem.Load(),
				}})
				return
			}
			status := http.StatusServiceUnavailable
			if r.URL.Path == operator.LivePath { // a director that is starting or waiting is alive
				status = http.StatusOK
			}
			operator.Respond(w, status, operator.Health{RunID: runID, Problem: *o.problem.Load()})
		}),
	}
	go func() {
		defer close(o.ended)
		if err := o.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("operator socket server failed", zap.Error(err))
		}
	}()
	return o
}

// Serve passes requests to the handlers of a session or a standby until ctx is done.
func (o *Socket) Serve(ctx context.Context, mux *http.ServeMux) {
	o.session.Store(mux)
	<-ctx.Done()
	o.Say(context.Cause(ctx))
	o.session.Store(nil)
}

// Say sets the reason why no session is running.
func (o *Socket) Say(problem error) {
	if o != nil {
		text := problem.Error()
		o.problem.Store(&text)
	}
}

// Close interrupts pending requests and waits until the server has stopped.
func (o *Socket) Close() error {
	if o == nil {
		return nil
	}
	err := o.server.Close()
	<-o.ended
	return err
}

// Probe answers a request at director.http_listen with the status that it would get on the socket, and with the word
// yes or no. It does not give the reason, because that address may be public.
func (o *Socket) Probe(w http.ResponseWriter, r *http.Request) {
	var answer statusOnly
	o.server.Handler.ServeHTTP(&answer, r)
	word := "no"
	if answer.status == http.StatusOK {
		word = "yes"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(answer.status)
	_, _ = io.WriteString(w, word+"\n") // a closed connection is not our error
}

// statusOnly is a ResponseWriter that keeps only the status.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header {
	if s.header == nil {
		s.header = http.Header{}
	}
	return s.header
}

func (s *statusOnly) WriteHeader(status int) { s.status = status }

func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }

// Listen listens on the operator's socket of a data directory. It replaces the socket of an earlier director. Listen
// creates the socket in a private directory, sets its permissions, and then moves it. Other users can therefore never
// connect, regardless of the umask.
func Listen(ctx context.Context, dataDir string) (net.Listener, error) {
	path, private := filepath.Join(dataDir, operator.SocketName), filepath.Join(dataDir, ".sock")
	bound := filepath.Join(private, "s") // a short name, because the kernel limits the length of the path
	if err := errors.Join(os.RemoveAll(private), os.Mkdir(private, 0o700)); err != nil {
		return nil, fmt.Errorf("director: operator socket: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", bound)
	if err != nil {
		return nil, fmt.Errorf("director: operator socket: %w (the path of director.data_dir may be too long: up to "+
			"90 bytes are safe)", err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	err = os.Chmod(bound, 0o600)
	if err == nil {
		err = os.Rename(bound, path) //nolint:forbidigo // a socket has no content that a power cut could damage
	}
	if err = errors.Join(err, os.Remove(private)); err != nil {
		return nil, errors.Join(fmt.Errorf("director: operator socket: %w", err), listener.Close())
	}
	return &renamedListener{Listener: listener, path: path}, nil
}

// renamedListener removes its socket when it is closed.
type renamedListener struct {
	net.Listener
	path string
	once sync.Once
}

// Close closes the listener and removes the socket. Further calls do nothing.
func (l *renamedListener) Close() (err error) {
	l.once.Do(func() { err = errors.Join(l.Listener.Close(), os.Remove(l.path)) })
	return err
}
