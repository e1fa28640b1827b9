package director

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/director/disk"
	"retake/internal/director/failure"
	"retake/internal/director/loop"
	"retake/internal/director/operator"
)

// Pauses between two tries to open the bus again: doubling up to a bound that is a few seconds, because
// everything waits for it.
const (
	reopenFirst = 500 * time.Millisecond
	reopenMost  = 5 * time.Second
)

// busFailed reports whether a session ended for something that opening the bus again can mend. A server that
// once failed to write refuses every write from then on, and a stream that was removed is made again only when
// the bus is opened.
func busFailed(err error) bool {
	return errors.Is(err, loop.ErrReload) || errors.Is(err, failure.ErrBus)
}

// reopenBus opens the bus again, with an embedded server on the same files, port and keys: workers connect to
// it again by themselves. Of a server that was joined the connections, and with them the lease, are as good as
// before: only its streams are made sure of. It waits for a disk that cannot be written, and tries until it
// works; the error is that of ctx.
func (d *daemon) reopenBus(ctx context.Context) error {
	joined := d.config.AgentBus.URL != ""
	if d.bus != nil && !joined {
		if err := d.bus.Close(ctx); err != nil && ctx.Err() == nil { // never two servers on one folder
			d.log.Warn("the bus was closed incompletely", zap.Error(err))
		}
	}
	return failure.Retry(ctx, failure.Pauses(reopenFirst, reopenMost), 0, func() error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		look := d.disk.Ask(ctx, true, disk.Slow)
		err := look.Unusable()
		if ctx.Err() == nil {
			d.disk.Keep(look)
		}
		switch {
		case err != nil:
		case joined:
			err = d.bus.Ensure(ctx)
		default:
			err = d.openBus(ctx)
		}
		if err == nil {
			d.log.Info("the bus was opened again")
		}
		return err
	}, func(err error, pause time.Duration) {
		d.operator.say(err)
		d.log.Warn("the bus cannot be opened", zap.Error(err), zap.Duration("in", pause))
	})
}

// operatorServer answers on the operator's socket for as long as the director runs. While no session does it says why.
type operatorServer struct {
	server  *http.Server
	ended   chan struct{}
	session atomic.Pointer[http.ServeMux]
	problem atomic.Pointer[string]
}

// newOperatorServer begins to answer on a socket. The metrics are there from the beginning.
func newOperatorServer(listener net.Listener, runID string, metrics http.Handler, log *zap.Logger) *operatorServer {
	o := &operatorServer{ended: make(chan struct{})}
	o.say(errors.New("the director begins"))
	o.server = &http.Server{
		ReadHeaderTimeout: 5 * time.Second, ConnContext: withConn,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == operator.MetricsPath { // they are there whoever leads
				metrics.ServeHTTP(w, r)
				return
			}
			if mux := o.session.Load(); mux != nil {
				mux.ServeHTTP(w, r)
				return
			}
			if r.URL.Path == "/snapshot" {
				operator.Respond(w, http.StatusServiceUnavailable,
					wire.Snapshot{Director: wire.SnapshotDirector{RunID: runID, Phase: "UNRESPONSIVE"}})
				return
			}
			status := http.StatusServiceUnavailable
			if r.URL.Path == operator.LivePath { // it begins, or waits for what it needs
				status = http.StatusOK
			}
			operator.Respond(w, status, operator.Health{RunID: runID, Problem: *o.problem.Load()})
		}),
	}
	go func() {
		defer close(o.ended)
		if err := o.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the operator's socket is not served any more", zap.Error(err))
		}
	}()
	return o
}

// serve hands requests to a session, or a standby, until ctx ends.
func (o *operatorServer) serve(ctx context.Context, mux *http.ServeMux) {
	o.session.Store(mux)
	<-ctx.Done()
	o.say(context.Cause(ctx))
	o.session.Store(nil)
}

// say notes why no session runs.
func (o *operatorServer) say(problem error) {
	if o != nil {
		text := problem.Error()
		o.problem.Store(&text)
	}
}

// close interrupts whoever waits for an answer.
func (o *operatorServer) close() error {
	if o == nil {
		return nil
	}
	err := o.server.Close()
	<-o.ended
	return err
}

// journalChecked ends a session whose journal the server has lost. No answer is no word.
func (s *session) journalChecked(ctx context.Context, last uint64) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := s.bus.Journal().Check(ctx, last)
	if err != nil {
		return fmt.Errorf("%w: %w", loop.ErrReload, err)
	}
	return nil
}
