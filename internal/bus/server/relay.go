package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"retake/internal/connlimit"
)

// Limits on one connection through a relay. In addition, NATS closes a connection that does not sign in within
// authTimeout.
const (
	handshakeTimeout = 5 * time.Second
	writeTimeout     = 10 * time.Second // a peer that does not read for this long is disconnected
	bytesPerSecond   = 4 << 20          // from a client to the server; the relay slows down a faster sender
	bytesBurst       = 8 << 20
	copyBuffer       = 16 << 10
	dialTimeout      = 5 * time.Second
)

// DefaultLimits apply while the number of workers is unknown. A worker's container needs only one connection, but all
// workers of the process runtime connect from this machine.
var DefaultLimits = connlimit.Limits{PerSource: 16, Local: 256, Total: 1024, Pace: 10}

// limitsFor returns the limits for a number of workers. All workers can connect even if one worker opens as many
// connections as its limit permits.
func limitsFor(workers int) connlimit.Limits {
	l := DefaultLimits
	if workers > 0 {
		l.Local = max(l.PerSource, 4*workers)
		l.Total = l.PerSource*(workers+1) + l.Local
	}
	return l
}

// acceptAgain is the pause after a failed accept.
const acceptAgain = 100 * time.Millisecond

// entrance is one of a relay's listeners.
type entrance struct {
	net.Listener
	tls *tls.Config // nil for plain connections
}

// relay copies data between its listeners and the NATS server.
type relay struct {
	entrances []entrance
	connect   func(context.Context) (net.Conn, error)
	limiter   *connlimit.Limiter
	log       *zap.Logger
	stopping  context.CancelFunc
	running   sync.WaitGroup
}

// Relay forwards a listener's connections to the NATS server at the given address, within the limits, until ctx is
// done. It copies bytes unchanged, including TLS.
func Relay(ctx context.Context, l net.Listener, to string, limits connlimit.Limits, log *zap.Logger) {
	connect := func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", to)
	}
	r := startRelay([]entrance{{Listener: l}}, connect, limits, log)
	<-ctx.Done()
	r.stop()
}

func startRelay(entrances []entrance, connect func(context.Context) (net.Conn, error), limits connlimit.Limits,
	log *zap.Logger,
) *relay {
	ctx, cancel := context.WithCancel(context.Background())
	seldom := &rate.Sometimes{First: 1, Interval: time.Minute}
	r := &relay{
		entrances: entrances, connect: connect, log: log, stopping: cancel,
		limiter: connlimit.New(limits, func(from net.Addr, why string) {
			seldom.Do(func() {
				log.Warn("bus connections refused", zap.Stringer("source", from), zap.String("reason", why))
			})
		}),
	}
	for i, e := range entrances {
		entrances[i].Listener = r.limiter.Listener(e.Listener)
		r.running.Go(func() { r.accept(ctx, entrances[i]) })
	}
	return r
}

// stop closes the listeners and connections, and waits for the goroutines.
func (r *relay) stop() {
	r.stopping()
	for _, e := range r.entrances {
		if err := e.Close(); err != nil {
			r.log.Warn("could not close a bus listener", zap.Error(err))
		}
	}
	r.running.Wait()
}

func (r *relay) accept(ctx context.Context, e entrance) {
	for {
		outside, err := e.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // usually a temporary shortage of file descriptors
			r.log.Warn("could not accept a bus connection; retrying", zap.Error(err))
			time.Sleep(acceptAgain)
			continue
		}
		r.running.Go(func() { r.serve(ctx, outside, e.tls) })
	}
}

// serve copies data in both directions until one side closes or ctx is done.
func (r *relay) serve(ctx context.Context, outside net.Conn, secure *tls.Config) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if secure != nil {
		c := tls.Server(outside, secure)
		handshake, done := context.WithTimeout(ctx, handshakeTimeout)
		err := c.HandshakeContext(handshake)
		done()
		if err != nil {
			connlimit.Reset(outside)
			return
		}
		outside = c
	}
	inside, err := r.connect(ctx)
	if err != nil {
		connlimit.Reset(outside)
		return
	}
	if secure != nil {
		inside = &greeting{Conn: inside}
	}
	closeBoth := func() { _, _ = outside.Close(), inside.Close() }
	defer context.AfterFunc(ctx, closeBoth)()
	var back sync.WaitGroup
	back.Go(func() {
		_ = pass(outside, inside, func(int) error { return outside.SetWriteDeadline(time.Now().Add(writeTimeout)) })
		cancel()
		closeBoth()
	})
	pace := rate.NewLimiter(bytesPerSecond, bytesBurst)
	_ = pass(inside, outside, func(n int) error { return pace.WaitN(ctx, n) })
	closeBoth()
	back.Wait()
}

// greeting announces TLS in the server's first line. The server does not know about the relay's TLS, but a client that
// requires TLS expects the announcement there.
type greeting struct {
	net.Conn
	rest io.Reader // the next bytes to read; nil before the first read
}

func (g *greeting) Read(p []byte) (int, error) {
	if g.rest == nil {
		first := make([]byte, len(infoPlain))
		n, err := io.ReadFull(g.Conn, first)
		first = first[:n]
		if string(first) == infoPlain {
			first = []byte(infoTLS)
		}
		g.rest = io.MultiReader(bytes.NewReader(first), g.Conn)
		if err != nil {
			g.rest = bytes.NewReader(first)
		}
	}
	return g.rest.Read(p)
}

// Beginnings of the server's first line, as NATS sends it and as greeting rewrites it.
const (
	infoPlain = "INFO {"
	infoTLS   = infoPlain + `"tls_required":true,`
)

// pass copies until a read or write fails. It calls ask before each write, and stops if ask returns an error.
func pass(to io.Writer, from io.Reader, ask func(n int) error) error {
	buffer := make([]byte, copyBuffer)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if err := ask(n); err != nil {
				return err
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}
