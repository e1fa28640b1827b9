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

// Server is the stand-in.
type Server struct {
	task Task
	http *http.Server
	url  string
	more []io.Closer // the places that cases need besides it

	places  map[place]string // base addresses
	serving sync.WaitGroup

	mu   sync.Mutex
	runs map[string]*run // by case and run
}

// run is what one run of a case has had.
type run struct {
	next     [2]int // answer, without and with tools
	requests int    // for answers of the model with tools
	side     int    // without tools: titles, summaries
	served   []Served
	refused  int // bytes of the request that was too long; 0: none was
}

// Served is one answer to a request with tools, as far as it was decided here.
type Served struct {
	At      time.Time
	Status  int
	In, Out int // tokens; 0 of what was refused
}

// run names one run of a case, as it stands in the path; without a label it is the only one.
func (c *Case) run(label string) string {
	if label == "" {
		return c.Name
	}
	return c.Name + "@" + label
}

// Served is what a run of a case was answered so far, in order.
func (s *Server) Served(c *Case, label string) []Served {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[c.run(label)]; r != nil {
		return slices.Clone(r.served)
	}
	return nil
}

// note writes down an answer.
func (x *exchange) note(e Served) {
	if len(x.talk.tools) == 0 {
		return
	}
	x.server.mu.Lock()
	defer x.server.mu.Unlock()
	e.At = time.Now()
	x.run.served = append(x.run.served, e)
}

// maxBody bounds a request: no provider takes more.
const maxBody = 32 << 20

// Start serves on an address until Close; port 0 picks a free one.
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

// URL is the address of the stand-in itself.
func (s *Server) URL() string { return s.url }

// Base is the address for a case, and for one run of it; without the /v1 that some clients want. Some cases are
// elsewhere: where nobody listens, say.
func (s *Server) Base(c *Case, label string) string {
	return s.places[c.place] + "/case/" + c.run(label)
}

// Count returns how many requests a run of a case has had: those with tools, and others.
func (s *Server) Count(c *Case, label string) (requests, side int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[c.run(label)]; r != nil {
		return r.requests, r.side
	}
	return 0, 0
}

// Close ends it, and every request that is under way.
func (s *Server) Close() error {
	errs := []error{s.http.Close()}
	for _, c := range s.more {
		errs = append(errs, c.Close())
	}
	s.serving.Wait()
	return errors.Join(errs...)
}

// exchange is one request and the way to answer it.
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
		http.Error(w, "the stand-in has no case "+name, http.StatusNotFound)
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

// caseOf cuts the case, with its run, off a path; what is left is the provider's own.
func caseOf(path string) (name, rest string) {
	after, ok := strings.CutPrefix(path, "/case/")
	if !ok {
		return "ok", path
	}
	name, rest, _ = strings.Cut(after, "/")
	name, _, _ = strings.Cut(name, "@")
	return name, "/" + rest
}

// take counts a request, and chooses the answer that is due.
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
	if a.refuses(x.run, x.talk) { // it stays, until the request is another
		x.run.next[kind] = at
		return a.give
	}
	return works.give
}

// models answers a list of models in the form of all three providers: each client takes the fields that it knows.
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

// Models are the names of the models that lists show. Requests may name any.
var Models = []string{"gpt-4.1", "claude-sonnet-4-5", "gemini-2.5-pro", "standin"}

// countTokens answers what clients ask besides: how many tokens something has.
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
