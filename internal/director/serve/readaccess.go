package serve

import (
	"crypto/subtle"
	"net/http"
	"strings"

	"retake/internal/page"
)

// ReadAccess decides which requests at director.http_listen may read the page and the metrics. A request through a
// proxy on this machine looks like a local request. If a token is configured, ReadAccess therefore requires it for
// every request.
type ReadAccess struct {
	Address       string
	Page, Metrics func() (token string, err error) // return "" if no token is configured
}

// Open reports whether a request may read the page without signing in. Open returns true only for a local request to a
// local address, and only if the page has no token.
func (d ReadAccess) Open(r *http.Request) bool {
	return Loopback(d.Address) && page.Local(r) && none(d.Page)
}

// ForMetrics returns a handler that passes requests with the metrics' bearer token to next. If the metrics have no
// token, the handler also passes the requests that Open accepts.
func (d ReadAccess) ForMetrics(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if d.mayScrape(r) {
			next(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "send the token from director.metrics_token_env or metrics_token_file as a bearer token",
			http.StatusUnauthorized)
	}
}

func (d ReadAccess) mayScrape(r *http.Request) bool {
	if d.Open(r) && none(d.Metrics) {
		return true
	}
	token, err := d.Metrics()
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return err == nil && token != "" && strings.EqualFold(scheme, "Bearer") &&
		subtle.ConstantTimeCompare([]byte(strings.TrimSpace(given)), []byte(token)) == 1
}

// none reports whether no token is configured. A token that cannot be read counts as configured.
func none(token func() (string, error)) bool {
	value, err := token()
	return err == nil && value == ""
}
