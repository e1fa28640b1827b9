package githubtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
)

// The secondary limits that GitHub documents for one credential.
const (
	restPoints      = 900  // a minute
	graphQLPoints   = 2000 // a minute
	readPoints      = 1
	writePoints     = 5
	contentByMinute = 80
	contentByHour   = 500
	concurrent      = 100
)

// spending counts the use of these limits by a credential.
type spending struct{ rest, graphQL, minute, hour []spent }

type spent struct {
	at time.Time
	n  int
}

// spend adds n within a span, and reports whether that stays within the limit.
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

// secondary returns the secondary limit that a request hits, or "". Without Options.Limits there are no limits. All
// POST, PUT and PATCH requests count as content, more than GitHub documents. s.mu is held.
func (s *gate) secondary(b *budget, r *http.Request) (which string) {
	if !s.opts.Limits {
		return ""
	}
	now, points := s.opts.Now(), readPoints
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
	if s.underWay > concurrent {
		which = "concurrent requests"
	}
	if r.URL.Path == GraphQLPath {
		count(&b.spent.graphQL, time.Minute, points, graphQLPoints, "points of GraphQL")
	} else {
		count(&b.spent.rest, time.Minute, points, restPoints, "points")
	}
	if write && r.Method != http.MethodDelete {
		count(&b.spent.minute, time.Minute, 1, contentByMinute, "content of a minute")
		count(&b.spent.hour, time.Hour, 1, contentByHour, "content of an hour")
	}
	if which != "" {
		s.throttled++
	}
	return which
}

// isQuery reports whether a request is a GraphQL query and not a mutation.
func isQuery(r *http.Request) bool {
	if r.URL.Path != GraphQLPath {
		return false
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
	var asked struct{ Query string }
	return err == nil && json.Unmarshal(body, &asked) == nil && !strings.HasPrefix(strings.TrimSpace(asked.Query),
		"mutation")
}

// Throttled counts the requests that were refused because of a secondary limit that is enforced.
func (s *gate) Throttled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.throttled
}
