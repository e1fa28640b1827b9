package director

import (
	"context"
	"io"
	"net/http"
	"time"

	"retake/internal/director/loop"
	"retake/internal/director/operator"
	"retake/internal/fsm"
)

// live: the owner answers. Bus, disk and GitHub may be away.
func (s *session) live(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	_, err := loop.Look(ctx, s.owner, func(*fsm.Driver) struct{} { return struct{}{} })
	if err != nil && ctx.Err() != nil { // any other error is that of a session that is over
		operator.Respond(w, http.StatusServiceUnavailable, operator.Health{RunID: s.runID, Problem: s.unwell(err, "")})
		return
	}
	operator.Respond(w, http.StatusOK, operator.Health{OK: true, RunID: s.runID})
}

// probe answers with what the socket would, in one word: anybody may ask here, and why it is so is the
// operator's business.
func (o *operatorServer) probe(w http.ResponseWriter, r *http.Request) {
	var answer statusOnly
	o.server.Handler.ServeHTTP(&answer, r)
	word := "no"
	if answer.status == http.StatusOK {
		word = "yes"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(answer.status)
	_, _ = io.WriteString(w, word+"\n") // the reader is gone, or it is not
}

// statusOnly keeps the status of an answer, and nothing else of it.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header {
	if s.header == nil {
		s.header = http.Header{}
	}
	return s.header
}

func (s *statusOnly) WriteHeader(status int) { s.status = status }

func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
