package connlimit

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"golang.org/x/time/rate"
)

// Limits are the maximum numbers of concurrent connections. Zero means no limit.
type Limits struct {
	PerSource int        // connections from one source
	Local     int        // connections from this machine, to which PerSource does not apply
	Total     int        // connections from all sources
	Pace      rate.Limit // new connections per second from one source
}

const (
	// minBurst is the minimum number of connections that a source may open at once, regardless of Limits.Pace.
	minBurst = 64
	// maxSources limits the number of remembered sources while Limits.Pace is set.
	maxSources = 4096
)

// Limiter counts connections by source.
type Limiter struct {
	refused func(from net.Addr, why string)

	mu      sync.Mutex
	limits  Limits
	total   int
	sources map[netip.Addr]*source
	order   uint64 // increases when a connection is accepted or begins to wait
}

type source struct {
	open map[*conn]struct{}
	pace *rate.Limiter
}

// New returns a Limiter. It calls refused for each connection that it closes, with the reason. refused must not block
// and may be nil.
func New(limits Limits, refused func(from net.Addr, why string)) *Limiter {
	if refused == nil {
		refused = func(net.Addr, string) {}
	}
	return &Limiter{limits: limits, refused: refused, sources: map[netip.Addr]*source{}}
}

// Set changes the limits for new connections.
func (l *Limiter) Set(limits Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = limits
}

// Open returns the number of open connections.
func (l *Limiter) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// Listener returns a listener that accepts only connections within the limits. A connection counts until it is closed.
func (l *Limiter) Listener(inner net.Listener) net.Listener { return &listener{inner, l} }

type listener struct {
	net.Listener
	limiter *Limiter
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c, replaced, why := l.limiter.admit(inner)
		if replaced != nil {
			l.limiter.refused(replaced.RemoteAddr(), why)
			Reset(replaced)
		}
		if c != nil {
			return c, nil
		}
		l.limiter.refused(inner.RemoteAddr(), why)
		Reset(inner)
	}
}

// conn is an admitted connection.
type conn struct {
	net.Conn
	limiter *Limiter
	source  *source

	// guarded by Limiter.mu
	waiting bool
	since   uint64 // Limiter.order when the connection was accepted, or began to wait
	closed  bool
}

// admit counts a connection, unless the limits refuse it. It may replace another connection, which the caller must
// close.
func (l *Limiter) admit(inner net.Conn) (c, replaced *conn, why string) {
	of := sourceOf(inner.RemoteAddr())
	l.mu.Lock()
	defer l.mu.Unlock()
	most := l.limits.PerSource
	if of.IsLoopback() {
		most = l.limits.Local
	}
	s := l.sources[of]
	if s == nil {
		if l.limits.Pace > 0 && len(l.sources) >= maxSources && !l.forget() {
			return nil, nil, "too many sources"
		}
		s = &source{open: map[*conn]struct{}{}, pace: rate.NewLimiter(rate.Inf, 0)}
		if l.limits.Pace > 0 {
			s.pace = rate.NewLimiter(l.limits.Pace, max(minBurst, most))
		}
		l.sources[of] = s
	}
	switch {
	case !s.pace.Allow():
		return nil, nil, "too many connections from one source in a short time"
	case most > 0 && len(s.open) >= most:
		why = "too many connections from one source"
		replaced = l.longestWaiting(s)
	case l.limits.Total > 0 && l.total >= l.limits.Total:
		why = "too many connections"
		if replaced = l.longestWaiting(nil); replaced == nil {
			replaced = l.newestOfMost(len(s.open) + 2)
		}
	}
	if why != "" && replaced == nil {
		l.drop(of, s)
		return nil, nil, why
	}
	if replaced != nil {
		l.remove(replaced)
	}
	l.order++
	c = &conn{Conn: inner, limiter: l, source: s, since: l.order}
	l.sources[of] = s
	s.open[c] = struct{}{}
	l.total++
	return c, replaced, why
}

// longestWaiting returns a waiting connection, or nil. It chooses the source with the most connections, and returns
// that source's longest-waiting connection. Unless only is nil, it considers only that source.
func (l *Limiter) longestWaiting(only *source) (found *conn) {
	for _, s := range l.sources {
		if only != nil && s != only {
			continue
		}
		for c := range s.open {
			if !c.waiting {
				continue
			}
			if found == nil || len(s.open) > len(found.source.open) ||
				len(s.open) == len(found.source.open) && c.since < found.since {
				found = c
			}
		}
	}
	return found
}

// newestOfMost returns the newest connection of the source with the most connections. It returns nil if that source has
// fewer than least connections.
func (l *Limiter) newestOfMost(least int) (found *conn) {
	for _, s := range l.sources {
		if len(s.open) < least || found != nil && len(s.open) < len(found.source.open) {
			continue
		}
		for c := range s.open {
			if found == nil || len(s.open) > len(found.source.open) || c.since > found.since {
				found = c
			}
		}
	}
	return found
}

// remove stops counting a connection. The caller must hold mu.
func (l *Limiter) remove(c *conn) {
	if c.closed {
		return
	}
	c.closed = true
	delete(c.source.open, c)
	l.total--
	l.drop(sourceOf(c.RemoteAddr()), c.source)
}

// drop removes a source without connections, unless its pace is limited. The caller must hold mu.
func (l *Limiter) drop(of netip.Addr, s *source) {
	if len(s.open) == 0 && s.pace.Limit() == rate.Inf {
		delete(l.sources, of)
	}
}

// forget removes sources without open or recent connections, and reports whether it removed any. The caller must hold
// mu.
func (l *Limiter) forget() bool {
	before := len(l.sources)
	for a, s := range l.sources {
		if len(s.open) == 0 && s.pace.Tokens() >= float64(s.pace.Burst()) {
			delete(l.sources, a)
		}
	}
	return len(l.sources) < before
}

// State records whether a connection is waiting for a request. Use it as http.Server.ConnState.
func (l *Limiter) State(c net.Conn, s http.ConnState) {
	own, ok := c.(*conn)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := s == http.StateNew || s == http.StateIdle
	if waiting && !own.waiting {
		l.order++
		own.since = l.order
	}
	own.waiting = waiting
}

// connKey is the context key of a request's connection.
type connKey struct{}

// Context stores the connection in the context of its requests, for Handler. Use it as http.Server.ConnContext.
func (l *Limiter) Context(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// Handler marks a connection as waiting while next reads the request's body.
func (l *Limiter) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if own, ok := r.Context().Value(connKey{}).(*conn); ok && r.Body != http.NoBody {
			r.Body = &body{r.Body, own}
		}
		next.ServeHTTP(w, r)
	})
}

// body wraps the body of a request. During a Read, its connection counts as waiting.
type body struct {
	io.ReadCloser
	from *conn
}

func (b *body) Read(p []byte) (int, error) {
	b.from.limiter.State(b.from, http.StateIdle)
	defer b.from.limiter.State(b.from, http.StateActive)
	return b.ReadCloser.Read(p)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.limiter.mu.Lock()
	c.limiter.remove(c)
	c.limiter.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite closes the write side. It returns errors.ErrUnsupported if the inner connection cannot do that.
func (c *conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Reset closes a connection with a TCP reset instead of the usual FIN.
func Reset(c net.Conn) {
	inner := c
	if own, ok := c.(*conn); ok {
		inner = own.Conn
	}
	if t, ok := inner.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

func sourceOf(a net.Addr) netip.Addr { return sourceOfText(a.String()) }

func sourceOfText(address string) netip.Addr {
	p, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Addr{}
	}
	ip := p.Addr().Unmap().WithZone("")
	if ip.Is4() || ip.IsLoopback() {
		return ip
	}
	net64, err := ip.Prefix(64)
	if err != nil {
		return ip
	}
	return net64.Addr()
}
