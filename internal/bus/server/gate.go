package server

import (
	"net"
	"net/netip"
	"sync"

	"golang.org/x/time/rate"
)

// Limits are the maximum numbers of concurrent connections through a relay. A source is an IPv4 address, or the /64
// network of an IPv6 address.
type Limits struct {
	PerSource int // from one source, such as a worker's container, which needs only one
	Local     int // from this machine, from which all workers of the process runtime connect
	Total     int
}

// DefaultLimits apply while the number of workers is unknown.
var DefaultLimits = Limits{PerSource: 16, Local: 256, Total: 1024}

// limitsFor returns the limits for a number of workers. They leave room for all workers even if one opens as many
// connections as it can.
func limitsFor(workers int) Limits {
	if workers == 0 {
		return DefaultLimits
	}
	l := Limits{PerSource: DefaultLimits.PerSource, Local: max(DefaultLimits.PerSource, 4*workers)}
	l.Total = l.PerSource*(workers+1) + l.Local
	return l
}

// Limits on new connections per second from one source, and on the number of sources that a gate remembers.
const (
	entriesPerSecond = 10
	entriesBurst     = 64
	maxSources       = 4096
)

// gate limits the open connections, in total and by source.
type gate struct {
	mu      sync.Mutex
	limits  Limits
	total   int
	sources map[netip.Addr]*source
}

type source struct {
	open int
	pace *rate.Limiter
}

func newGate(l Limits) *gate { return &gate{limits: l, sources: map[netip.Addr]*source{}} }

// limit sets the limits for new connections.
func (g *gate) limit(l Limits) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limits = l
}

// enter admits a connection, or returns the reason for a refusal. After the connection has ended, the caller must call
// leave once.
func (g *gate) enter(from net.Addr) (leave func(), why string) {
	of := sourceOf(from)
	g.mu.Lock()
	defer g.mu.Unlock()
	limit := g.limits.PerSource
	if of.IsLoopback() {
		limit = g.limits.Local
	}
	s := g.sources[of]
	if s == nil {
		if len(g.sources) >= maxSources && !g.forget() {
			return nil, "too many sources"
		}
		s = &source{pace: rate.NewLimiter(rate.Limit(entriesPerSecond), max(entriesBurst, limit))}
		g.sources[of] = s
	}
	switch {
	case !s.pace.Allow():
		return nil, "too many connections from one source in a short time"
	case s.open >= limit:
		return nil, "too many connections from one source"
	case g.total >= g.limits.Total:
		return nil, "too many connections"
	}
	s.open++
	g.total++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		s.open--
		g.total--
	}, ""
}

// forget drops sources without open or recent connections, and reports whether it dropped any.
func (g *gate) forget() bool {
	before := len(g.sources)
	for a, s := range g.sources {
		if s.open == 0 && s.pace.Tokens() >= float64(s.pace.Burst()) {
			delete(g.sources, a)
		}
	}
	return len(g.sources) < before
}

func sourceOf(a net.Addr) netip.Addr {
	p, err := netip.ParseAddrPort(a.String())
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
