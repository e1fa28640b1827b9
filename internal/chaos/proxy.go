package chaos

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

// weather describes how the proxy disturbs a share of the requests.
type weather struct {
	share float64 // share of the requests that are disturbed
	does  func(p *proxy, w http.ResponseWriter, r *http.Request)
	also  func(r *http.Request) bool // if not nil, selects the requests that may be disturbed
	most  int                        // maximum number of disturbed requests, or 0 for no maximum
}

// proxy forwards requests from the director to the GitHub stand-in.
type proxy struct {
	to http.Handler

	mu     sync.Mutex
	now    *weather
	chance *rand.Rand
	hit    int // number of disturbed requests in total
	hitNow int // number of requests disturbed by the current weather
}

func (p *proxy) set(w *weather, seed uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.hitNow, p.chance = w, 0, rand.New(rand.NewPCG(seed, 7))
}

// hits returns the number of disturbed requests so far.
func (p *proxy) hits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hit
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	now := p.now
	if now == nil || now.also != nil && !now.also(r) || now.most > 0 && p.hitNow >= now.most ||
		p.chance.Float64() >= now.share {
		now = nil
	} else {
		p.hit++
		p.hitNow++
	}
	p.mu.Unlock()
	if now == nil {
		p.to.ServeHTTP(w, r)
		return
	}
	now.does(p, w, r)
}

func isWrite(r *http.Request) bool { return r.Method != http.MethodGet && !isGit(r) }
func isGit(r *http.Request) bool   { return strings.Contains(r.URL.Path, ".git/") }

// isIssue reports whether a request is about one issue or its parts, such as comments.
func isIssue(r *http.Request) bool { return strings.Contains(r.URL.Path, "/issues/") }

// serverError answers with a status, without carrying out the request.
func serverError(status int) func(*proxy, http.ResponseWriter, *http.Request) {
	return func(_ *proxy, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"message":"Server Error"}`))
	}
}

// refuse answers as GitHub does when a permission or an object is missing.
func refuse(status int, message string) func(*proxy, http.ResponseWriter, *http.Request) {
	return func(_ *proxy, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"message":"` + message + `","documentation_url":"https://docs.github.com/rest"}`))
	}
}

// cut carries out the request and drops the answer.
func cut(p *proxy, _ http.ResponseWriter, r *http.Request) {
	p.answer(r)
	panic(http.ErrAbortHandler)
}

// half carries out the request and sends half of the answer.
func half(p *proxy, w http.ResponseWriter, r *http.Request) {
	out := p.answer(r)
	for k, v := range out.Header() {
		w.Header()[k] = v
	}
	body := out.Body.Bytes()
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(out.Code)
	_, _ = w.Write(body[:len(body)/2])
	panic(http.ErrAbortHandler)
}

// late forwards the request after a delay.
func late(p *proxy, w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(4 * time.Second):
	case <-r.Context().Done():
		return
	}
	p.to.ServeHTTP(w, r)
}

// lie reports success without carrying out the request.
func lie(_ *proxy, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if strings.HasSuffix(r.URL.Path, "/labels") {
		_, _ = w.Write([]byte("[]"))
		return
	}
	_, _ = w.Write([]byte("{}"))
}

// answer forwards the request to the GitHub stand-in.
func (p *proxy) answer(r *http.Request) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	out.Body = &bytes.Buffer{}
	p.to.ServeHTTP(out, r)
	return out
}
