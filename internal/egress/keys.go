package egress

import (
	"cmp"
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Key is a provider's API key, which workers use without seeing it.
type Key struct {
	Host  string // name with an optional port, which defaults to 443
	Value string
}

// placeholderPrefix begins every API key placeholder, because some agents check the prefix of their key.
const placeholderPrefix = "sk-retake-"

// Placeholder returns the value that replaces every API key in the attempt.
func (p *Proxy) Placeholder(attempt string) string {
	return placeholderPrefix + attempt + "-" + p.Token(attempt)
}

// holder returns the attempt with this placeholder. ok is false unless the attempt is running.
func (p *Proxy) holder(placeholder string) (attempt string, ok bool) {
	rest, ok := strings.CutPrefix(placeholder, placeholderPrefix)
	cut := strings.LastIndexByte(rest, '-')
	if !ok || cut < 0 {
		return "", false
	}
	return rest[:cut], p.knows(rest[:cut], rest[cut+1:])
}

// keyHeaders lists the headers that carry API keys, and the prefix of their values.
var keyHeaders = []struct{ name, before string }{
	{"X-Api-Key", ""},
	{"Authorization", "Bearer "},
	{"X-Goog-Api-Key", ""},
}

// keyParameter is the query parameter that Google's APIs accept instead of keyParameterHeader. The proxy never puts the
// key into a URL, because providers repeat URLs in redirects and error pages.
const (
	keyParameter       = "key"
	keyParameterHeader = "X-Goog-Api-Key"
)

// presented returns the placeholder in a request's headers or query.
func presented(r *http.Request) string {
	for _, h := range keyHeaders {
		if text, ok := strings.CutPrefix(r.Header.Get(h.name), h.before); ok &&
			strings.HasPrefix(text, placeholderPrefix) {
			return text
		}
	}
	return r.URL.Query().Get(keyParameter)
}

// serveKeys forwards a request to the provider of a key, if its placeholder belongs to a running attempt.
func (p *Proxy) serveKeys(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	attempt, ok := p.holder(presented(r))
	if !ok {
		w.Header().Set("Connection", "close")
		http.Error(w, "retake: want this attempt's key, from the variable named in the path",
			http.StatusUnauthorized)
		return
	}
	if _, known := p.o.Keys[name]; !known {
		http.Error(w, "retake: the first path segment is not in containers.proxied_keys", http.StatusNotFound)
		return
	}
	if !keyMethods[r.Method] {
		http.Error(w, "retake: requests with a key cannot use "+r.Method[:min(len(r.Method), 20)],
			http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), attemptKey{}, attempt))
	defer cancel()
	leave, ok := p.enter(attempt, &ends{cancel})
	if !ok {
		http.Error(w, "retake: too many concurrent requests from this attempt", http.StatusTooManyRequests)
		return
	}
	defer leave()
	p.onward.ServeHTTP(finalOnly{w}, r.WithContext(ctx))
}

// withKey rewrites a worker's request for the provider, replacing the placeholder with the key.
func (p *Proxy) withKey(r *httputil.ProxyRequest) {
	name, rest, _ := strings.Cut(strings.TrimPrefix(r.In.URL.EscapedPath(), "/"), "/")
	key, placeholder := p.o.Keys[name], presented(r.In)
	r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "https", key.Host, key.Host
	r.Out.URL.Path, r.Out.URL.RawPath = "/"+rest, "/"+rest
	if plain, err := url.PathUnescape("/" + rest); err == nil {
		r.Out.URL.Path = plain
	}
	for _, h := range keyHeaders {
		if r.Out.Header.Get(h.name) == h.before+placeholder {
			r.Out.Header.Set(h.name, h.before+key.Value)
		}
	}
	if q := r.In.URL.Query(); q.Get(keyParameter) == placeholder {
		q.Del(keyParameter)
		r.Out.URL.RawQuery = q.Encode()
		r.Out.Header.Set(keyParameterHeader, key.Value)
	}
	for _, h := range unmaskable {
		r.Out.Header.Del(h)
	}
	r.Out.Header.Set("Accept-Encoding", "identity")
}

// dialKeyHost connects only to hosts in Keys.
func (p *Proxy) dialKeyHost(ctx context.Context, network, address string) (net.Conn, error) {
	return p.dial(ctx, network, address, func(host string, port uint16) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(p.o.Keys)), func(k Key) bool {
			name, at, _ := strings.Cut(k.Host, ":")
			return host == name && cmp.Or(at, "443") == strconv.Itoa(int(port))
		})
	})
}
