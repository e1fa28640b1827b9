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

// weather is the proxy's effect on a share of the requests while it lasts.
type weather struct {
	share float64 // of requests that are hit
	does  func(p *proxy, w http.ResponseWriter, r *http.Request)
	also  func(r *http.Request) bool // limits the requests that may be hit, unless nil
	most  int                        // number of requests that are hit, or 0 without a bound
}

// proxy stands between the director and the stand-in.
type proxy struct {
	to http.Handler

	mu     sync.Mutex
	now    *weather
	chance *rand.Rand
	hit    int // all
	hitNow int // by this weather
}

func (p *proxy) set(w *weather, seed uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.hitNow, p.chance = w, 0, rand.New(rand.NewPCG(seed, 7))
}

// hits is the number of hit requests so far.
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

// isIssue is a request about one issue, or about what hangs on it.
func isIssue(r *http.Request) bool { return strings.Contains(r.URL.Path, "/issues/") }

// serverError answers without doing anything.
func serverError(status int) func(*proxy, http.ResponseWriter, *http.Request) {
	return func(_ *proxy, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"message":"Server Error"}`))
	}
}

// refuse answers as GitHub does for a missing permission or object.
func refuse(status int, message string) func(*proxy, http.ResponseWriter, *http.Request) {
	return func(_ *proxy, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"message":"` + message + `","documentation_url":"https://docs.github.com/rest"}`))
	}
}

// cut loses the answer after the request was carried out.
func cut(p *proxy, _ http.ResponseWriter, r *http.Request) {
	p.answer(r)
	panic(http.ErrAbortHandler)
}

// half sends half of the answer.
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

// late answers after a while.
func late(p *proxy, w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(4 * time.Second):
	case <-r.Context().Done():
		return
	}
	p.to.ServeHTTP(w, r)
}

// lie reports success without doing anything.
func lie(_ *proxy, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if strings.HasSuffix(r.URL.Path, "/labels") {
		_, _ = w.Write([]byte("[]"))
		return
	}
	_, _ = w.Write([]byte("{}"))
}

// answer lets the stand-in carry out the request.
func (p *proxy) answer(r *http.Request) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	out.Body = &bytes.Buffer{}
	p.to.ServeHTTP(out, r)
	return out
}
