package githubtest

import (
	"net/http"
	"strconv"
	"strings"
)

// Block notes that GitHub knows an issue to be blocked by another one of the same repository. Neither outlives
// the process.
func (s *Server) Block(key, by string) {
	s.relate(key, by, func(i, other *issue) { i.blockedBy = append(i.blockedBy, other) })
}

// AddSubIssue makes an issue a part of another one of the same repository.
func (s *Server) AddSubIssue(parent, child string) {
	s.relate(parent, child, func(i, other *issue) { other.parent = i })
}

func (s *Server) relate(key, other string, do func(i, other *issue)) {
	s.mu.Lock()
	defer s.unlock()
	name, n, _ := strings.Cut(key, "#")
	_, m, _ := strings.Cut(other, "#")
	r := s.find(name)
	a, _ := strconv.Atoi(n)
	b, _ := strconv.Atoi(m)
	do(r.issue(a), r.issue(b))
	r.issue(a).Updated = s.now()
}

func (r *repo) subIssues(parent *issue) (subs []*issue) {
	for _, i := range r.Issues {
		if i.parent == parent {
			subs = append(subs, i)
		}
	}
	return subs
}

// open counts those that are.
func open(issues []*issue) (n int) {
	for _, i := range issues {
		if !i.Closed && !i.Deleted {
			n++
		}
	}
	return n
}

func (c *call) listBlockers() {
	writeJSON(c.w, http.StatusOK,
		objects(page(c, c.on.blockedBy), func(i *issue) object { return c.to.issue(c.repo, i) }))
}

func (c *call) listSubIssues() {
	writeJSON(c.w, http.StatusOK,
		objects(page(c, c.repo.subIssues(c.on)), func(i *issue) object { return c.to.issue(c.repo, i) }))
}
