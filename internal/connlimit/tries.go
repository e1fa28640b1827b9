package connlimit

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Tries limits events, such as wrong passwords, for each source separately. It remembers at most maxSources sources
// with recent events. At this limit, it refuses new sources until the recent events of a remembered source have
// expired. Tries is safe for concurrent use.
type Tries struct {
	each  rate.Limit
	burst int

	mu      sync.Mutex
	sources map[netip.Addr]*rate.Limiter // at most maxSources
	swept   time.Time                    // time of the last call to forget, which is slow
}

// NewTries returns a Tries with the same limit for each source. burst is the number of events allowed at once, and each
// is the sustained rate.
func NewTries(each rate.Limit, burst int) *Tries {
	return &Tries{each: each, burst: burst, sources: map[netip.Addr]*rate.Limiter{}}
}

// Allow counts an event from a source, and reports whether it is within the limit. address is an IP address with a
// port, as in http.Request.RemoteAddr.
func (t *Tries) Allow(address string) bool {
	of := sourceOfText(address)
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.sources[of]
	if l == nil {
		if len(t.sources) >= maxSources && !t.forget(time.Now()) {
			return false
		}
		l = rate.NewLimiter(t.each, t.burst)
		t.sources[of] = l
	}
	return l.Allow()
}

// forget removes sources without recent events, at most once a second, and reports whether it removed any. The caller
// must hold mu.
func (t *Tries) forget(now time.Time) bool {
	if now.Sub(t.swept) < time.Second {
		return false
	}
	t.swept = now
	before := len(t.sources)
	for of, l := range t.sources {
		if l.Tokens() >= float64(l.Burst()) {
			delete(t.sources, of)
		}
	}
	return len(t.sources) < before
}
