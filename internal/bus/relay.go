package bus

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
)

// relay hands connections from our listeners to the server's in-process door.
type relay struct {
	listeners []net.Listener
	door      func() (net.Conn, error)
	log       *zap.Logger
	running   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

func startRelay(listeners []net.Listener, door func() (net.Conn, error), log *zap.Logger) *relay {
	r := &relay{listeners: listeners, door: door, log: log, open: make(map[net.Conn]struct{})}
	for _, l := range listeners {
		r.running.Go(func() { r.accept(l) })
	}
	return r
}

// stop closes everything and waits for its goroutines.
func (r *relay) stop() {
	r.mu.Lock()
	r.closed = true
	for _, l := range r.listeners {
		if err := l.Close(); err != nil {
			r.log.Warn("bus listener", zap.Error(err))
		}
	}
	for c := range r.open {
		_ = c.Close() // the copying goroutines see and tell nothing new
	}
	r.mu.Unlock()
	r.running.Wait()
}

func (r *relay) accept(l net.Listener) {
	for failures := 0; ; {
		outside, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of file descriptors: wait for some to come back
			r.log.Warn("bus listener", zap.Error(err))
			time.Sleep(backoff(failures))
			failures++
			continue
		}
		failures = 0
		r.running.Go(func() { r.serve(outside) })
	}
}

// serve copies both ways until one side ends.
func (r *relay) serve(outside net.Conn) {
	inside, err := r.door()
	if err != nil {
		_ = outside.Close()
		return
	}
	if !r.enter(outside, inside) {
		return
	}
	defer r.leave(outside, inside)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(outside, inside)
		_ = outside.Close()
	})
	_, _ = io.Copy(inside, outside)
	_ = inside.Close()
	back.Wait()
}

// enter keeps a pair so that stop can close it; false: stopped already.
func (r *relay) enter(pair ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range pair {
		if r.closed {
			_ = c.Close()
			continue
		}
		r.open[c] = struct{}{}
	}
	return !r.closed
}

func (r *relay) leave(pair ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range pair {
		_ = c.Close()
		delete(r.open, c)
	}
}
