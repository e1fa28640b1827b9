package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"retake/internal/github/gate"
	"retake/internal/sys/crashpoint"
)

// Limits on one exchange.
const (
	exchangeTimeout = 30 * time.Second // GitHub itself gives up after 10 seconds
	answerBytes     = 32 << 20         // enough for a page of 100 issues with the longest bodies
	maxRedirects    = 5
)

// Limits on the cache for conditional requests. An idle repository needs about seven answers. A request counts against
// the hourly limit if its last answer is not in the cache.
const (
	keptAnswers = 8192
	keptBytes   = 32 << 20
	headerBytes = 2 << 10 // approximate size of a header
)

// answer is a complete response.
type answer struct {
	status int
	header http.Header
	body   []byte
	etag   string
	same   bool // GitHub answered with 304
}

// SameHeader marks an answer that came from the cache after a 304. GitHub does not send it.
const SameHeader = "X-Retake-Same"

// hidden lists headers that go-github must not see, because they make it refuse requests without sending them.
var hidden = []string{
	"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Used", "X-Ratelimit-Reset",
	"X-Ratelimit-Resource", "Retry-After", SameHeader,
}

// transport is shared by all requests of one credential.
type transport struct {
	base   *url.URL
	next   http.RoundTripper
	token  func(context.Context) (string, error)
	gate   *gate.Gate
	cache  Memory[answer] // by URL
	served served
	writes bool
	// onAnswer, if set, receives the outcome of each request.
	onAnswer func(Answered)
	last     atomic.Pointer[string] // newest token, for the redactor

	scarce atomic.Pointer[time.Time] // when the hourly limit resets, if at least half of its requests are used

	mu      sync.Mutex
	works   bool  // GitHub has accepted the credential at least once
	refused Doubt // refusals since the last success
}

// laneTransport sends requests of one lane through the gate, as go-github's RoundTripper. It returns either a 2xx
// answer or an *Error, so go-github never sees redirects, 304 responses or limits.
type laneTransport struct {
	*transport
	lane gate.Lane
}

var _ http.RoundTripper = laneTransport{}

func (t laneTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close() // each attempt reads a copy
	}
	if changes(req) && !t.writes {
		return nil, ErrWritesDisabled
	}
	target := req.URL
	moved := false
	for range maxRedirects + 1 {
		if target.Scheme != t.base.Scheme || target.Host != t.base.Host {
			return nil, Permanent("redirected to another host (%s): check api_url", target.Host)
		}
		ans, err := t.exchange(req, target)
		if err != nil {
			return nil, err
		}
		if !isRedirect(ans) {
			return t.finish(req, target, ans, moved)
		}
		if target, err = target.Parse(ans.header.Get("Location")); err != nil {
			return nil, Permanent("invalid redirect from %s", req.URL.Path)
		}
		moved = true
	}
	return nil, Permanent("more than %d redirects from %s", maxRedirects, req.URL.Path)
}

// isRedirect reports whether an answer is a redirect. RoundTrip then repeats the request with its method and body.
// net/http would turn a redirected POST into a GET, and the status 200 of the GET would look like a successful write.
func isRedirect(a answer) bool {
	switch a.status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return a.header.Get("Location") != ""
	}
	return false
}

// exchange sends one request through the gate and reports its answer to the gate.
func (t laneTransport) exchange(req *http.Request, target *url.URL) (answer, error) {
	admitted, _ := req.Context().Value(turnKey{}).(*turn)
	w := admitted.take()
	if w == nil {
		w = t.turnOf(req)
		if err := t.gate.Enter(req.Context(), w); err != nil {
			return answer{}, notAdmitted(err)
		}
	}
	sent, op := time.Now(), req.Method+" "+target.Path
	if w.Write {
		crashpoint.Reached("github/write/before")
	}
	ans, err := t.send(req, target)
	if w.Write {
		crashpoint.Reached("github/write/after")
	}
	if err != nil {
		t.tell(req.Method, sent, answer{}, nil)
		if e := Detail(err); e.account && (e.Kind == KindTransient || t.worked()) {
			return answer{}, t.closedByRefusal(w, sent, e.Detail()+": "+nextAccount)
		}
		t.gate.Leave(w, sent, unanswered(req.Context(), err))
		return answer{}, err
	}
	now := time.Now()
	if until, says := halfUsed(ans.header, now); says {
		t.scarce.Store(&until)
	}
	if l, limited := readLimit(ans.status, ans.header, ans.body, now); limited {
		t.tell(req.Method, sent, ans, &l)
		until := t.gate.Leave(w, sent, gate.Result{Limit: &l})
		return answer{}, &Error{
			Kind: KindRateLimited, Status: ans.status, Until: until, Resource: cmp.Or(l.Resource, w.Resource()),
			Message: l.Why, Op: op,
		}
	}
	t.tell(req.Method, sent, ans, nil)
	r := answered(ans, op)
	if l, spent := spentAfter(ans.header, now); spent {
		r.Limit = &l
	}
	switch t.reach(req.Context(), target, ans) {
	case ofAccount:
		return answer{}, t.closedByRefusal(w, sent, accountRefused(op, ans))
	case undecided:
		t.gate.Leave(w, sent, r)
		return answer{}, &Error{
			Kind: KindTransient, Status: ans.status, Op: op, Doubtful: true,
			Message: complaintText(readComplaint(ans.body), MessageLimit),
		}
	}
	t.gate.Leave(w, sent, r)
	return ans, nil
}

func changes(req *http.Request) bool {
	return req.Method != http.MethodGet && req.Method != http.MethodHead && !isQuery(req)
}

// asksGraphQL reports whether a request is for the GraphQL API, in which every request is a POST.
func asksGraphQL(req *http.Request) bool {
	return req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/graphql")
}

// queryStart begins the body of a GraphQL request that only reads.
const queryStart = `{"query":"query`

func isQuery(req *http.Request) bool {
	if !asksGraphQL(req) || req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	start := make([]byte, len(queryStart))
	_, err = io.ReadFull(body, start)
	return err == nil && string(start) == queryStart
}

// turnOf describes a request for the gate, including its cost. Each GraphQL mutation counts as one change.
func (t laneTransport) turnOf(req *http.Request) *gate.Request {
	w := &gate.Request{Lane: t.lane, Write: changes(req), GraphQL: asksGraphQL(req)}
	switch {
	case w.GraphQL && w.Write && req.GetBody != nil:
		if body, err := req.GetBody(); err == nil {
			text, _ := io.ReadAll(body)
			text, _, _ = bytes.Cut(text, []byte(`"variables":`)) // variables contain untrusted text
			w.Changes, w.Content = gate.Mutations(text)
		}
	case w.Write:
		if req.Method != http.MethodDelete {
			w.Changes = 1
		}
		if gate.Creates(req.Method, req.URL.Path) {
			w.Content = 1
		}
	}
	return w
}

// unanswered returns the gate's result for a request that ended with an error instead of an answer.
func unanswered(ctx context.Context, err error) gate.Result {
	if ctx.Err() != nil {
		return gate.Result{GivenUp: true}
	}
	return gate.Result{
		Failure: Detail(err).Detail(), Unsent: KindOf(err) != KindTransient || errors.Is(err, ErrNotSent),
	}
}

// answered returns the gate's result for an answer. A status that shows a failing server, such as 502, counts as a
// missing answer.
func answered(a answer, op string) gate.Result {
	if a.status >= 300 && kindOfStatus(a.status) == KindTransient {
		return gate.Result{Failure: fmt.Sprintf("%s: status %d", op, a.status)}
	}
	return gate.Result{OK: a.status < 400}
}

// send sends a request and reads the answer. If the answer is missing or unusable, the error is transient, because
// GitHub may have carried out the request.
func (t laneTransport) send(req *http.Request, target *url.URL) (answer, error) {
	ctx, cancel := context.WithTimeout(req.Context(), exchangeTimeout)
	defer cancel()
	out := req.Clone(ctx)
	out.URL, out.Host = target, ""
	if req.GetBody != nil { // go-github sets it
		body, err := req.GetBody()
		if err != nil {
			return answer{}, Transient("cannot read the request body", err)
		}
		out.Body = body
	}
	if err := t.authorize(ctx, out); err != nil {
		return answer{}, err
	}
	old, known := answer{}, false
	if req.Method == http.MethodGet {
		if old, known = t.cache.Get(target.String()); known {
			out.Header.Set("If-None-Match", old.etag)
		}
	}
	op := req.Method + " " + target.Path
	resp, err := t.next.RoundTrip(out)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) {
			err = cause
		}
		return answer{}, &Error{Kind: KindTransient, Op: op, Message: "no response", Err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	ans := answer{status: resp.StatusCode, header: resp.Header, etag: resp.Header.Get("ETag")}
	if ans.body, err = io.ReadAll(io.LimitReader(resp.Body, answerBytes+1)); err != nil {
		return answer{}, &Error{Kind: KindTransient, Op: op, Message: "response was cut off", Err: err}
	}
	if len(ans.body) > answerBytes {
		return answer{}, &Error{Kind: KindPermanent, Op: op, Message: fmt.Sprintf("response is larger than %d bytes",
			answerBytes)}
	}
	switch {
	case ans.status < 300 && len(ans.body) > 0 && !json.Valid(ans.body): // a proxy's page
		return answer{}, &Error{
			Kind: KindTransient, Status: ans.status, Op: op,
			Message: "unusable response: not JSON",
		}
	case ans.status == http.StatusNotModified && known:
		// The rate limits and the date come from the new answer. Headers about the content belong to the cached body.
		ans = answer{
			status: http.StatusOK, header: merged(old.header, resp.Header), body: old.body, etag: old.etag,
			same: true,
		}
	case ans.status == http.StatusOK && req.Method == http.MethodGet && ans.etag != "" && len(ans.body) <= keptBytes/4:
		t.cache.Put(target.String(), ans)
	}
	return ans, nil
}

func merged(old, fresh http.Header) http.Header {
	h := old.Clone()
	for k, v := range fresh {
		if k != "Content-Length" && k != "Link" && k != "Content-Type" {
			h[k] = v
		}
	}
	return h
}

func (t laneTransport) authorize(ctx context.Context, out *http.Request) error {
	token, err := t.token(ctx)
	if minted, ok := errors.AsType[*Error](err); ok {
		return minted
	}
	if err != nil {
		return &Error{Kind: KindUnauthorized, Message: "no token", Err: err}
	}
	if token = strings.TrimSpace(token); token == "" {
		return &Error{Kind: KindUnauthorized, Message: "empty token: set the variable or file named in the " +
			"configuration"}
	}
	t.last.Store(&token)
	out.Header.Set("Authorization", "Bearer "+token)
	return nil
}

// finish turns any answer except a redirect or a limit into a response for go-github.
func (t laneTransport) finish(req *http.Request, target *url.URL, ans answer, moved bool) (*http.Response, error) {
	if ans.status >= 300 {
		status := ans.status
		if moved && status == http.StatusNotFound {
			status = http.StatusMovedPermanently // the issue was transferred to a repository that we may not read
		}
		return nil, t.refusal(&Error{
			Kind: kindOfStatus(ans.status), Status: status,
			Op: req.Method + " " + target.Path, Message: complaintText(readComplaint(ans.body), MessageLimit),
		})
	}
	t.accepted()
	if repo := t.repoOf(target); repo != "" {
		t.served.Put(repo, struct{}{})
	}
	h := ans.header.Clone()
	for _, name := range hidden {
		h.Del(name)
	}
	if ans.same {
		h.Set(SameHeader, "true")
	}
	return &http.Response{
		Status: http.StatusText(ans.status), StatusCode: ans.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(bytes.NewReader(ans.body)), ContentLength: int64(len(ans.body)), Request: req,
	}, nil
}
