package page

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
)

// Limits on open streams. streamsEach applies to one session or, for browsers that are not signed in, to one address.
const (
	streamsAtOnce = 200
	streamsEach   = 100
)

// seats limits the number of open streams and shares them fairly among sources. When all seats are taken, a source with
// few streams evicts the newest stream of the source with the most streams.
type seats struct {
	mu    sync.Mutex
	taken map[string][]*seat // by source, oldest first
	n     int
}

type seat struct{ end context.CancelCauseFunc }

// errCrowded ends a stream whose seat went to another source.
const errCrowded = problem("too many viewers: reload the page later")

// take reserves a seat. ok is false if no seat can be freed or the source already has streamsEach seats. If the seat
// later goes to another source, end is called. The caller must call leave once.
func (p *seats) take(source string, end context.CancelCauseFunc) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := len(p.taken[source])
	if own >= streamsEach || p.n >= streamsAtOnce && !p.evict(own+2) {
		return nil, false
	}
	if p.taken == nil {
		p.taken = map[string][]*seat{}
	}
	one := &seat{end}
	p.taken[source] = append(p.taken[source], one)
	p.n++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.remove(source, one)
	}, true
}

// evict ends the newest stream of the source with the most streams, if that source has at least least streams. The
// caller must hold mu.
func (p *seats) evict(least int) bool {
	most := ""
	for source, open := range p.taken {
		if len(open) >= least && len(open) > len(p.taken[most]) {
			most = source
		}
	}
	open := p.taken[most]
	if len(open) == 0 {
		return false
	}
	last := open[len(open)-1]
	p.remove(most, last)
	last.end(errCrowded)
	return true
}

// remove frees a seat unless it was already freed. The caller must hold mu.
func (p *seats) remove(source string, one *seat) {
	for i, other := range p.taken[source] {
		if other == one {
			p.taken[source] = append(p.taken[source][:i], p.taken[source][i+1:]...)
			p.n--
			break
		}
	}
	if len(p.taken[source]) == 0 {
		delete(p.taken, source)
	}
}

// sourceOf returns a request's session cookie, or the client address if there is no session.
func (s *sessions) sourceOf(r *http.Request) string {
	if cookie, known := s.find(r); known.by != "" {
		return cookie
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// farewell returns errOver or errCrowded if one of them ended the stream, and nil otherwise.
func farewell(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errOver) || errors.Is(cause, errCrowded) {
		return cause
	}
	return nil
}
