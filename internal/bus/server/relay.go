package server

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
)

// acceptAgain is the pause after a connection could not be accepted.
const acceptAgain = 100 * time.Millisecond

// relay copies connections from our listeners to the server's in-process connections.
type relay struct {
	listeners []net.Listener
	connect   func() (net.Conn, error)
	log       *zap.Logger
	stopping  context.CancelFunc
	running   sync.WaitGroup
}

func startRelay(listeners []net.Listener, connect func() (net.Conn, error), log *zap.Logger) *relay {
	ctx, cancel := context.WithCancel(context.Background())
	r := &relay{listeners: listeners, connect: connect, log: log, stopping: cancel}
	for _, l := range listeners {
		r.running.Go(func() { r.accept(ctx, l) })
	}
	return r
}

// stop closes everything and waits for its goroutines.
func (r *relay) stop() {
	r.stopping()
	if err := closeAll(r.listeners); err != nil {
		r.log.Warn("bus listener", zap.Error(err))
	}
	r.running.Wait()
}

func (r *relay) accept(ctx context.Context, l net.Listener) {
	for {
		outside, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of file descriptors: wait for some to come back
			r.log.Warn("bus listener", zap.Error(err))
			time.Sleep(acceptAgain)
			continue
		}
		r.running.Go(func() { r.serve(ctx, outside) })
	}
}

// serve copies both ways until one side ends, or ctx does.
func (r *relay) serve(ctx context.Context, outside net.Conn) {
	inside, err := r.connect()
	if err != nil {
		_ = outside.Close()
		return
	}
	closeBoth := func() { _, _ = outside.Close(), inside.Close() }
	defer context.AfterFunc(ctx, closeBoth)()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(outside, inside)
		closeBoth()
	})
	_, _ = io.Copy(inside, outside)
	closeBoth()
	back.Wait()
}
