package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server is the fake provider.
type Server struct {
	task Task
	http *http.Server
	url  string
	more []io.Closer // listeners of the other addresses

	places  map[place]string // base URLs
	serving sync.WaitGroup

	mu   sync.Mutex
	runs map[string]*run // by case and run
}

// run is the state of one run of a case.
type run struct {
	next     [2]int // index of the next answer, for requests without and with tools
	requests int    // requests with tools
	side     int    // requests without tools, for titles and summaries
	served   []Served
	refused  int // size of the request that was refused as too long, or 0
}

// Served records one answer to a request with tools.
type Served struct {
	At      time.Time
	Status  int
	In, Out int // tokens; 0 for a refused request
}

// run returns a run's key, as it appears in paths. An empty label means the case's only run.
func (c *Case) run(label string) string {
	if label == "" {
		return c.Name
	}
	return c.Name + "@" + label
}

// Served returns the answers given to a run of a case so far, in order.
func (s *Server) Served(c *Case, label string) []Served {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[c.run(label)]; r != nil {
		return slices.Clone(r.served)
	}
	return nil
}

// note records an answer for Served.
func (x *exchange) note(e Served) {
	if len(x.talk.tools) == 0 {
		return
	}
	x.server.mu.Lock()
	defer x.server.mu.Unlock()
	e.At = time.Now()
	x.run.served = append(x.run.served, e)
}

// maxBody limits the size of a request. No provider accepts more.
const maxBody = 32 << 20

// Start serves on an address until Close. Port 0 picks a free port.
func Start(ctx context.Context, listen string, task Task) (*Server, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("agenttest: %w", err)
	}
	s := &Server{task: task, runs: map[string]*run{}, url: "http://" + l.Addr().String()}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ErrorLog: silent()}
	if err := s.openPlaces(ctx, l.Addr()); err != nil {
		return nil, errors.Join(err, l.Close(), s.Close())
	}
	s.serving.Go(func() { _ = s.http.Serve(l) }) // until Close
	return s, nil
}

// URL returns the server's address.
func (s *Server) URL() string { return s.url }

// Base returns the address for a case and one of its runs, without the /v1 that some clients add. Some cases
// are at other addresses, such as a port without a listener.
func (s *Server) Base(c *Case, label string) string {
	return s.places[c.place] + "/case/" + c.run(label)
}

// Count returns how many requests a run has made, with tools and without.
func (s *Server) Count(c *Case, label string) (requests, side int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[c.run(label)]; r != nil {
		return r.requests, r.side
	}
	return 0, 0
}

// Close stops the server and aborts requests in progress.
func (s *Server) Close() error {
	errs := []error{s.http.Close()}
	for _, c := range s.more {
		errs = append(errs, c.Close())
	}
	s.serving.Wait()
	return errors.Join(errs...)
}

// exchange is one request and its response.
type exchange struct {
	*dialect
	server *Server
	run    *run
	w      http.ResponseWriter
	r      *http.Request
	talk   conversation
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, path := caseOf(r.URL.Path)
	c := Find(name)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	switch {
	case c == nil:
		http.Error(w, "fake provider: unknown case "+name, http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if r.Method == http.MethodGet {
		models(w, path)
		return
	}
	d := dialectOf(path)
	if d == nil {
		countTokens(w, path, len(body))
		return
	}
	var o object
	if json.Unmarshal(body, &o) != nil || o == nil {
		fail(w, d.failure(malformedRequest), nil)
		return
	}
	x := &exchange{dialect: d, server: s, w: w, r: r, talk: d.read(path, o)}
	x.talk.bytes = len(body)
	x.talk.bare = d.protocol == Gemini && r.URL.Query().Get("alt") != "sse"
	s.take(r.URL.Path, c, x)(x)
}

// caseOf splits a path into the case with its run and the provider's path.
func caseOf(path string) (name, rest string) {
	after, ok := strings.CutPrefix(path, "/case/")
	if !ok {
		return "ok", path
	}
	name, rest, _ = strings.Cut(after, "/")
	name, _, _ = strings.Cut(name, "@")
	return name, "/" + rest
}

// take counts a request and chooses its answer.
func (s *Server) take(path string, c *Case, x *exchange) func(*exchange) {
	key, _, _ := strings.Cut(strings.TrimPrefix(path, "/case/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[key] == nil {
		s.runs[key] = &run{}
	}
	x.run = s.runs[key]
	kind := 0
	if len(x.talk.tools) > 0 {
		kind = 1
		x.run.requests++
	} else {
		x.run.side++
	}
	at := x.run.next[kind]
	if at < len(c.answers)-1 {
		x.run.next[kind]++
	}
	a := c.answers[at]
	if a.refuses == nil {
		return a.give
	}
	if a.refuses(x.run, x.talk) { // the answer is repeated until the request changes
		x.run.next[kind] = at
		return a.give
	}
	return works.give
}

// models answers a request for the model list. The answer has the fields of all three providers, and each client reads
// the fields that it knows.
func models(w http.ResponseWriter, path string) {
	if !strings.HasSuffix(path, "/models") && !strings.Contains(path, "/models/") {
		http.NotFound(w, nil)
		return
	}
	var list, google []object
	for _, id := range Models {
		list = append(list, object{
			"id": id, "object": "model", "type": "model", "display_name": id,
			"created": 1763800000, "created_at": "2026-01-01T00:00:00Z", "owned_by": "standin",
		})
		google = append(google, object{
			"name": "models/" + id, "displayName": id, "inputTokenLimit": 200000,
			"outputTokenLimit": 32000, "supportedGenerationMethods": []string{"generateContent", "countTokens"},
		})
	}
	if i := slices.Index(Models, path[strings.LastIndex(path, "/")+1:]); i >= 0 {
		one := list[i]
		one["name"] = "models/" + Models[i]
		writeJSON(w, one)
		return
	}
	writeJSON(w, object{
		"object": "list", "data": list, "models": google, "has_more": false, "first_id": Models[0],
		"last_id": Models[len(Models)-1],
	})
}

// Models are the names in the model list. Requests can use any model name.
var Models = []string{"gpt-4.1", "claude-sonnet-4-5", "gemini-2.5-pro", "standin"}

// countTokens answers a request to count tokens.
func countTokens(w http.ResponseWriter, path string, bytes int) {
	switch {
	case strings.HasSuffix(path, "/count_tokens"):
		writeJSON(w, object{"input_tokens": bytes / 4})
	case strings.HasSuffix(path, ":countTokens"):
		writeJSON(w, object{"totalTokens": bytes / 4})
	default:
		fail(w, wireError{status: http.StatusNotFound, body: encode(object{"error": object{
			"message": "Invalid URL (POST " + path + ")", "type": "invalid_request_error", "param": nil, "code": nil,
		}})}, nil)
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, encode(v)+"\n")
}

// fail sends an error.
func fail(w http.ResponseWriter, e wireError, more http.Header) {
	for _, h := range []http.Header{e.header, more} {
		for name, values := range h {
			w.Header()[name] = values
		}
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(e.status)
	_, _ = io.WriteString(w, e.body)
}
