package lead

import (
	"fmt"
	"net/http"

	"retake/internal/director/loop"
	"retake/internal/github/api"
)

// Transport returns a transport that fails all writes to GitHub while this process does not hold the lease.
func (c *Candidate) Transport(next http.RoundTripper) http.RoundTripper {
	return transport{next, c.Leads}
}

type transport struct {
	next  http.RoundTripper
	leads func() bool
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !t.leads() {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fmt.Errorf("%w: %w", api.ErrNotSent, loop.ErrLeaseLost)
	}
	return t.next.RoundTrip(r)
}
