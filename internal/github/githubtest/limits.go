package githubtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	limits "retake/internal/github/gate"
)

// GitHub's documented secondary limits for one credential.
const (
	restPoints      = 900  // a minute
	graphQLPoints   = 2000 // a minute
	readPoints      = 1
	writePoints     = 5
	contentByMinute = 80
	contentByHour   = 500
	concurrent      = 100
)

// spending counts the use of these limits.
type spending struct{ rest, graphQL, minute, hour []spent }

type spent struct {
	at time.Time
	n  int
}

// spend drops entries that are older than span, and adds n unless the sum would exceed limit. It reports whether it
// added n.
func spend(all []spent, now time.Time, span time.Duration, n, limit int) ([]spent, bool) {
	used := n
	kept := all[:0]
	for _, s := range all {
		if now.Sub(s.at) < span {
			kept = append(kept, s)
			used += s.n
		}
	}
	if used > limit {
		return kept, false
	}
	return append(kept, spent{now, n}), true
}

// secondary returns the name of the secondary limit that a request exceeds, or "". It enforces limits only with
// Options.Limits. s.mu is held.
func (s *gate) secondary(b *budget, r *http.Request) (which string) {
	if !s.opts.Limits {
		return ""
	}
	now, hour, points := s.opts.Now(), s.opts.Hour, readPoints
	write := r.Method != http.MethodGet && r.Method != http.MethodHead && !isQuery(r)
	if write {
		points = writePoints
	}
	count := func(all *[]spent, span time.Duration, n, limit int, name string) {
		var ok bool
		if *all, ok = spend(*all, now, span, n, limit); !ok && which == "" {
			which = name
		}
	}
	if b.underWay > concurrent {
		which = "concurrent requests"
	}
	if r.URL.Path == GraphQLPath {
		count(&b.spent.graphQL, hour/60, points, graphQLPoints, "GraphQL points")
	} else {
		count(&b.spent.rest, hour/60, points, restPoints, "points")
	}
	if content := contentOf(r); content > 0 {
		count(&b.spent.minute, hour/60, content, contentByMinute, "content per minute")
		count(&b.spent.hour, hour, content, contentByHour, "content per hour")
	}
	if which != "" {
		s.throttled++
	}
	return which
}

// contentOf returns how much new content a request creates.
func contentOf(r *http.Request) int {
	if r.URL.Path == GraphQLPath {
		query, _ := queryOf(r)
		_, content := limits.Mutations([]byte(query))
		return content
	}
	if limits.Creates(r.Method, r.URL.Path) {
		return 1
	}
	return 0
}

// isQuery reports whether a request is a GraphQL query and not a mutation.
func isQuery(r *http.Request) bool {
	query, ok := queryOf(r)
	return ok && !strings.HasPrefix(strings.TrimSpace(query), "mutation")
}

// queryOf returns the text of a GraphQL request, or false for other requests. It restores the body so that the caller
// can read it again.
func queryOf(r *http.Request) (query string, ok bool) {
	if r.URL.Path != GraphQLPath {
		return "", false
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
	var asked struct{ Query string }
	ok = err == nil && json.Unmarshal(body, &asked) == nil
	return asked.Query, ok
}

// Throttled counts the requests that were refused because of a secondary limit.
func (s *gate) Throttled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.throttled
}
