package githubtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Fault is a failure of the next matching requests to the API or to the git server.
type Fault struct {
	Git    bool   `json:"git"`    // hits git requests, which are not logged, instead of API requests
	Method string `json:"method"` // empty matches any method but Mutation
	// regular expression for the path below /api/v3 (for git, the whole path) and the query
	Path  string `json:"path"`
	Skip  int    `json:"skip"`  // number of matching requests to let through first
	Times int    `json:"times"` // number of requests to hit, at least one

	Delay     time.Duration     `json:"delay"` // delay before the request is processed; nanoseconds in JSON
	Status    int               `json:"status"`
	Header    map[string]string `json:"header"`
	Body      string            `json:"body"`
	CutBefore bool              `json:"cut_before"` // cut the connection before the request has an effect
	CutAfter  bool              `json:"cut_after"`  // cut the connection after the effect, without an answer

	path *regexp.Regexp
}

// SecondaryLimit returns a fault with GitHub's answer to bursts. The status is 403 or 429. The answer has a Retry-After
// header unless retryAfter is 0.
func SecondaryLimit(status int, retryAfter time.Duration) Fault {
	f := Fault{
		Status: status, Header: map[string]string{},
		Body: `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.","documentation_url":"https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`,
	}
	if retryAfter > 0 {
		f.Header["Retry-After"] = strconv.Itoa(int(retryAfter.Seconds()))
	}
	return f
}

// PrimaryLimit returns a fault with GitHub's answer after the last request of an hour's budget.
func PrimaryLimit(status int, reset time.Time) Fault {
	return Fault{
		Status: status, Header: map[string]string{
			"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "0", "X-RateLimit-Used": "5000",
			"X-RateLimit-Reset": strconv.FormatInt(reset.Unix(), 10), "X-RateLimit-Resource": "core",
		},
		Body: `{"message":"API rate limit exceeded for user ID 1.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api"}`,
	}
}

// ServerError returns a fault with a 5xx status.
func ServerError(status int) Fault {
	return Fault{Status: status, Body: `{"message":"Server Error"}`}
}

// OnPush limits a fault to git pushes.
func (f Fault) OnPush() Fault {
	f.Git, f.Path = true, "git-receive-pack"
	return f
}

// On limits a fault to matching requests.
func (f Fault) On(method, path string) Fault {
	f.Method, f.Path = method, path
	return f
}

// gate receives all requests to the API and to git. It checks credentials, applies faults and limits, and logs
// requests.
type gate struct {
	*store
	apps      *apps
	api       http.Handler
	requests  []Request
	count     int
	throttled int // number of requests refused by secondary limits
	faults    []*Fault
}

// Inject adds a fault. If several faults match a request, the oldest fault applies.
func (s *gate) Inject(f Fault) error {
	p, err := regexp.Compile(f.Path)
	if err != nil {
		return fmt.Errorf("githubtest: fault: %w", err)
	}
	if f.Times == 0 {
		f.Times = 1
	}
	f.path = p
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
	return nil
}

// Repair removes the remaining faults.
func (s *gate) Repair() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// fault returns the fault that hits a request, or nil, and counts the hit. s.mu is held.
func (s *gate) fault(git bool, method, path string) *Fault {
	for i, f := range s.faults {
		any := f.Method == "" && method != Mutation
		if f.Git != git || !any && f.Method != method || !f.path.MatchString(path) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times--; f.Times == 0 {
			s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
		}
		return f
	}
	return nil
}

func (f *Fault) name() string {
	switch {
	case f.CutBefore:
		return "cut before"
	case f.CutAfter:
		return "cut after"
	case f.Status != 0:
		return "status " + strconv.Itoa(f.Status)
	}
	return "delay"
}

// budget counts the requests of one user, or of one installation of an App.
type budget struct {
	Used     int       `json:"used"`
	Reset    time.Time `json:"reset"`
	Closed   time.Time `json:"closed,omitzero"` // a request before this time is a violation
	spent    spending  // requests that count against the secondary limits
	underWay int       // number of requests in progress
}

// budgetOf returns the budget with the given name, and resets it if its hour is over. s.mu is held.
func (s *gate) budgetOf(name string) *budget {
	b := s.budgets[name]
	if b == nil {
		b = &budget{}
		s.budgets[name] = b
	}
	if now := s.opts.Now(); !now.Before(b.Reset) {
		b.Used, b.Reset = 0, now.Truncate(time.Second).Add(s.opts.Hour)
	}
	return b
}

func (s *gate) rateHeaders(h http.Header, b *budget) {
	left := max(0, s.opts.RateLimit-b.Used)
	for k, v := range map[string]int64{
		"Limit": int64(s.opts.RateLimit), "Remaining": int64(left), "Used": int64(b.Used), "Reset": b.Reset.Unix(),
	} {
		h.Set("X-RateLimit-"+k, itoa(v))
	}
	h.Set("X-RateLimit-Resource", "core")
}

// noteLimit records how long the client must wait after an answer, according to GitHub's documented rules. s.mu is
// held.
func (s *gate) noteLimit(b *budget, status int, h http.Header) {
	limited := h.Get("Retry-After") != "" || h.Get("X-RateLimit-Remaining") == "0"
	if status != http.StatusTooManyRequests && (status != http.StatusForbidden || !limited) {
		return
	}
	now := s.opts.Now()
	until := now.Add(s.opts.Hour / 60)
	if n, err := strconv.Atoi(h.Get("Retry-After")); err == nil {
		until = now.Add(time.Duration(n) * time.Second)
	} else if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		until = at
	} else if n, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil &&
		h.Get("X-RateLimit-Remaining") == "0" {
		until = time.Unix(n, 0)
	}
	if until.After(b.Closed) {
		b.Closed = until
	}
}

// serveAPI handles one request to the API. It logs the request, applies faults and limits, and then calls the routes.
func (s *gate) serveAPI(w http.ResponseWriter, r *http.Request) {
	path := "/" + strings.TrimPrefix(strings.TrimPrefix(r.URL.RequestURI(), APIPath), "/api/")
	s.mu.Lock()
	from := s.apps.caller(r)
	entry := Request{N: s.count, At: s.opts.Now().UTC(), Method: r.Method, Path: path}
	s.count++
	var b *budget
	if from.user != nil {
		entry.User = from.user.login
		b = s.budgetOf(from.budget)
		b.underWay++
		defer func() {
			s.mu.Lock()
			b.underWay--
			s.mu.Unlock()
		}()
		if s.opts.Now().Before(b.Closed) {
			entry.DuringLimit = true
			s.late++
		}
	}
	f := s.fault(false, r.Method, path)
	if f != nil {
		entry.Fault = f.name()
	}
	s.mu.Unlock()

	if f != nil && f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
		}
	}
	out := newRecorder()
	if f == nil || f.Status == 0 && !f.CutBefore {
		s.answer(out, r, from, b)
	} else {
		refuse(out, f)
	}
	cut := f != nil && (f.CutBefore || f.CutAfter)
	entry.Status = out.status
	if cut {
		entry.Status = 0
	}
	s.finish(out, b, entry)
	if cut {
		panic(http.ErrAbortHandler)
	}
	out.copyTo(w)
}

func refuse(out *recorder, f *Fault) {
	for k, v := range f.Header {
		out.Header().Set(k, v)
	}
	out.Header().Set("Content-Type", "application/json; charset=utf-8")
	out.WriteHeader(max(f.Status, 200))
	_, _ = out.Write([]byte(f.Body))
}

// finish adds the headers common to all answers, and logs the request.
func (s *gate) finish(out *recorder, b *budget, entry Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Header().Set("Date", s.now().Format(http.TimeFormat))
	if b != nil {
		if out.Header().Get("X-RateLimit-Remaining") == "" {
			s.rateHeaders(out.Header(), b)
		}
		s.noteLimit(b, out.status, out.Header())
		if strings.Contains(out.body.String(), "secondary rate limit") && out.status == http.StatusForbidden &&
			out.Header().Get("Retry-After") == "" {
			b.Closed = s.opts.Now().Add(s.opts.Hour / 60)
		}
	}
	s.requests = append(s.requests, entry)
	if len(s.requests) > logLimit {
		s.requests = append(s.requests[:0], s.requests[len(s.requests)/10:]...)
	}
}

// answer answers a request to which no fault applies.
func (s *gate) answer(out *recorder, r *http.Request, from caller, b *budget) {
	if isApps(r.URL.Path) {
		s.mu.Lock()
		defer s.unlock()
		s.apps.answerApp(out, r)
		return
	}
	if from.user == nil {
		fail(out, http.StatusUnauthorized, "Bad credentials")
		return
	}
	s.mu.Lock()
	spent, which := b.Used >= s.opts.RateLimit, ""
	if !spent {
		b.Used++
		which = s.secondary(b, r)
	}
	s.mu.Unlock()
	if which != "" {
		limit := SecondaryLimit(http.StatusForbidden, s.opts.Hour/60)
		refuse(out, &limit)
		return
	}
	if spent {
		fail(out, http.StatusForbidden, "API rate limit exceeded for "+from.text+".")
		return
	}
	s.api.ServeHTTP(out, r)
	if out.conditional(r) {
		s.mu.Lock()
		b.Used-- // a 304 is not charged
		s.mu.Unlock()
	}
}

// Transport answers requests in the caller's goroutine, without a socket. It returns an error if a fault cuts the
// connection.
func (s *Server) Transport() http.RoundTripper { return roundTripper{s} }

type roundTripper struct{ s *Server }

var errCut = errors.New("githubtest: connection cut")

func (t roundTripper) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	out := newRecorder()
	defer func() {
		if p := recover(); p != nil {
			if e, ok := p.(error); !ok || !errors.Is(e, http.ErrAbortHandler) {
				panic(p)
			}
			resp, err = nil, errCut
		}
	}()
	in := req.Clone(req.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	if in.Host == "" {
		in.Host = in.URL.Host
	}
	in.RequestURI = in.URL.RequestURI()
	t.s.ServeHTTP(out, in)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return out.response(req), nil
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
