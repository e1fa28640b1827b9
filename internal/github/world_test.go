package github

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"retake/internal/github/api"
	"retake/internal/github/claims"
	"retake/internal/github/githubtest"
	"retake/internal/github/tracker"
)

const (
	testAPI   = "https://github.test/api/v3/"
	testRepo  = "acme/widgets"
	testNonce = "k3v9qx2m"
)

var testLabels = tracker.Labels{
	Task: "agent-task", Claimed: "agent-claimed", Blocked: "agent-blocked",
	Review: "agent-review",
}

// world is a stand-in with one repository, inside a synctest bubble.
type world struct {
	*testing.T
	sim  *githubtest.Server
	key  string // key of an open issue with the task label
	rest bool   // GraphQL fails, so clients use REST
}

// modes has the APIs with which a claim and a delivery can write, each with its set-up.
var modes = map[string]func(w *world){
	"GraphQL": func(w *world) { w.sim.DefineLabels(testRepo, testLabels.Others("")...) },
	"REST":    func(w *world) { w.withoutGraphQL() },
}

func (w *world) withoutGraphQL() {
	w.rest = true
	w.inject(githubtest.Fault{Status: http.StatusNotFound, Body: `{"message":"Not Found"}`, Times: 1 << 30}.On("POST",
		"^/graphql$"))
}

// inWorld runs f with a new world in a synctest bubble.
func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newWorld(t)) })
}

func newWorld(t *testing.T) *world {
	sim := githubtest.New(githubtest.Options{})
	for _, login := range []string{"retake-bot", "other-bot", "mallory"} {
		sim.AddUser(login, "token-of-"+login)
	}
	err := sim.AddRepo(testRepo, "", map[string]string{"retake-bot": "write", "other-bot": "write"})
	if err != nil {
		t.Fatal(err)
	}
	return &world{T: t, sim: sim, key: sim.CreateIssue(testRepo, "acme", "Parse the new format", "Please.",
		"agent-task")}
}

// client returns a client for a login. Its requests and the answers are checked against GitHub's description.
func (w *world) client(login string, change ...func(*Options)) *Client {
	w.Helper()
	o := Options{
		Options: api.Options{
			BaseURL:          testAPI,
			Writes:           true,
			MinBetweenWrites: time.Second,
			MaxConcurrent:    2,
			CooldownDefault:  time.Minute,
			Token:            func(context.Context) (string, error) { return "token-of-" + login, nil },
			Transport:        checked(w.T, w.sim.Transport()),
		},
		Fleet:          "default",
		Labels:         testLabels,
		TrustedAuthors: []string{"OWNER", "MEMBER", "COLLABORATOR"},
	}
	for _, f := range change {
		f(&o)
	}
	c, err := New(o)
	if err != nil {
		w.Fatal(err)
	}
	if w.rest {
		c.Labels.AvoidGraphQL(tracker.Thread{}, "for the test")
	}
	return c
}

func via(wrap func(http.RoundTripper) http.RoundTripper) func(*Options) {
	return func(o *Options) { o.Transport = wrap(o.Transport) }
}

func (w *world) inject(f githubtest.Fault) {
	w.Helper()
	if err := w.sim.Inject(f); err != nil {
		w.Fatal(err)
	}
}

// labelEvents returns the label changes by our logins, such as "+agent-claimed".
func (w *world) labelEvents() []string {
	var all []string
	for _, e := range w.sim.Events(w.key) {
		if sign := map[string]string{"labeled": "+", "unlabeled": "-"}[e.Event]; sign != "" && e.Actor != "acme" {
			all = append(all, sign+e.Detail)
		}
	}
	return all
}

// marked returns the comments with a marker of the given kind.
func (w *world) marked(kind string) []githubtest.Comment {
	return slices.DeleteFunc(w.sim.Issue(w.key).Comments, func(c githubtest.Comment) bool {
		m, ok := tracker.ReadMarker(c.Body)
		return !ok || m.Kind != kind
	})
}

func (w *world) wantLabels(want ...string) {
	w.Helper()
	slices.Sort(want)
	if got := w.sim.Issue(w.key).Labels; !slices.Equal(got, want) {
		w.Errorf("labels = %q, want %q", got, want)
	}
}

// changes returns the requests that were not GETs.
func (w *world) changes() (all []githubtest.Request) {
	for _, r := range w.sim.Requests() {
		if r.Method != http.MethodGet {
			all = append(all, r)
		}
	}
	return all
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// roundTrip is a function that implements http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// validated counts the exchanges that were checked against the description.
var validated atomic.Int64

// checked fails the test if a request or an answer of the stand-in does not match the description.
func checked(t *testing.T, next http.RoundTripper) http.RoundTripper {
	router, err := description()
	if err != nil {
		t.Fatal(err)
	}
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		body := []byte(nil)
		if r.Body != nil {
			body, _ = io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		if unmarked(r, body) {
			t.Errorf("%s %s posts a comment without a marker, as if from a person: %s", r.Method, r.URL,
				body)
		}
		in, err := checkRequest(router, r, body)
		if err != nil {
			t.Errorf("our request %s %s %s: %v", r.Method, r.URL, body, err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		resp, err := next.RoundTrip(r)
		noGraphQL := strings.HasSuffix(r.URL.Path, "/graphql") && err == nil && resp.StatusCode == http.StatusNotFound
		if err != nil || in == nil || faulty(resp.StatusCode) || noGraphQL {
			return resp, err
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body = io.NopCloser(bytes.NewReader(answer))
		err = checkAnswer(in, resp, answer)
		if err == nil && strings.HasSuffix(r.URL.Path, "/graphql") {
			err = checkGraphQL(body, answer)
		}
		if err != nil {
			t.Errorf("answer to %s %s: %d %s: %v", r.Method, r.URL, resp.StatusCode, answer, err)
		}
		validated.Add(1)
		return resp, nil
	})
}

var commentPath = regexp.MustCompile(`/issues/(\d+/comments|comments/\d+)$`)

// unmarked reports whether a request writes a comment that does not begin with a marker. Such a request fails every
// test.
func unmarked(r *http.Request, body []byte) bool {
	if strings.HasSuffix(r.URL.Path, "/graphql") {
		return slices.ContainsFunc(graphQLBodies(body),
			func(text string) bool { _, marked := tracker.ReadMarker(text); return !marked })
	}
	if r.Method != http.MethodPost && r.Method != http.MethodPatch || !commentPath.MatchString(r.URL.Path) {
		return false
	}
	var text struct{ Body string }
	if json.Unmarshal(body, &text) != nil {
		return true
	}
	_, marked := tracker.ReadMarker(text.Body)
	return !marked
}

// faulty reports whether every endpoint may answer with status, even if the description omits it.
func faulty(status int) bool {
	return status == http.StatusNotModified || status == http.StatusUnauthorized || status == http.StatusForbidden ||
		status == http.StatusTooManyRequests || status >= 500 || status == http.StatusTemporaryRedirect
}

func checkRequest(router routers.Router, r *http.Request, body []byte) (*openapi3filter.RequestValidationInput, error) {
	r2 := r.Clone(context.Background())
	r2.Body = io.NopCloser(bytes.NewReader(body))
	route, params, err := router.FindRoute(r2)
	if err != nil {
		return nil, err
	}
	in := &openapi3filter.RequestValidationInput{
		Request: r2, PathParams: params, Route: route,
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
		},
	}
	return in, openapi3filter.ValidateRequest(context.Background(), in)
}

func checkAnswer(in *openapi3filter.RequestValidationInput, resp *http.Response, body []byte) error {
	return openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header, Options: in.Options,
		Body: io.NopCloser(bytes.NewReader(body)),
	})
}

// asError returns the *Error in err. It stops the test if err does not contain an *Error.
func asError(t *testing.T, err error) *api.Error {
	t.Helper()
	var e *api.Error
	if !errors.As(err, &e) {
		t.Fatalf("error = %v, want an *Error", err)
	}
	return e
}

func claimRequest(w *world, nonce string) claims.Request {
	return claims.Request{Key: w.key, Nonce: nonce, RunID: "run_20261121-095900Z"}
}

func (w *world) claimed(c *Client) {
	w.Helper()
	got, err := c.Claims.Claim(w.Context(), claimRequest(w, testNonce))
	w.must(err)
	if got.Outcome != claims.Won {
		w.Fatalf("claim = %+v", got)
	}
}
