package githubtest

import (
	"slices"
	"strings"
	"time"
)

// user is a login with a token.
type user struct {
	id    int64
	login string
	token string
	bot   bool
}

type label struct {
	id                       int64
	name, color, description string
}

type comment struct {
	id               int64
	author           *user
	body             string
	created, updated time.Time
	reactions        []*reaction
}

// issue is an issue or, with pull set, a pull request.
type issue struct {
	id               int64
	number           int
	title, body      string
	author           *user
	closed           bool
	created, updated time.Time
	closedAt         time.Time
	labels           []string
	edits            []*edit // texts of the body, oldest first; none before the first change
	comments         []*comment
	dropped          []*comment // that were deleted; not kept across restarts
	head, base       string     // branches; pull requests only
	pull             *pullRequest
	closedBy         *user
	movedTo          string // "owner/repo#n" after a transfer
	blockedBy        []*issue
	parent           *issue
	deleted          bool
}

type repo struct {
	id            int64
	owner         *user
	name          string
	collaborators map[string]string // login → read | triage | write | maintain | admin
	labels        []*label
	issues        []*issue // by number, from 1
	checks        []*checkRun
	statuses      []*commitStatus
	branches      map[string]string // commits of branches; only without git
	protection    Protection
	created       time.Time
	movedTo       string // "owner/name" after a rename
}

func (r *repo) fullName() string { return r.owner.login + "/" + r.name }

func (r *repo) issue(n int) *issue {
	if n < 1 || n > len(r.issues) {
		return nil
	}
	return r.issues[n-1]
}

func (r *repo) label(name string) *label {
	for _, l := range r.labels {
		if strings.EqualFold(l.name, name) {
			return l
		}
	}
	return nil
}

// permission of a user: admin for the owner, none for anybody else (public repositories: read).
func (r *repo) permission(u *user) string {
	if u == r.owner {
		return "admin"
	}
	if p, ok := r.collaborators[u.login]; ok {
		return p
	}
	return "read"
}

func (r *repo) mayWrite(u *user) bool {
	return slices.Contains([]string{"admin", "maintain", "write"}, r.permission(u))
}

// mayTriage: label, close and reopen issues.
func (r *repo) mayTriage(u *user) bool { return r.permission(u) == "triage" || r.mayWrite(u) }

func (r *repo) association(u *user) string {
	if u == r.owner {
		return "OWNER"
	}
	if _, ok := r.collaborators[u.login]; ok {
		return "COLLABORATOR"
	}
	return "NONE"
}

func (i *issue) has(name string) bool {
	return slices.ContainsFunc(i.labels, func(l string) bool { return strings.EqualFold(l, name) })
}

func (i *issue) state() string {
	if i.closed {
		return "closed"
	}
	return "open"
}

// Event is one change of an issue that somebody could be notified of.
type Event struct {
	ID    int64     `json:"id"`
	At    time.Time `json:"at"`
	Issue string    `json:"issue"` // owner/repo#n
	Actor string    `json:"actor"`
	// opened closed reopened edited renamed labeled unlabeled commented comment_edited comment_deleted reacted
	// unreacted merged synchronized reviewed review_dismissed ready_for_review convert_to_draft
	Event string `json:"event"`
	// label name; id of comment or review; reaction and comment id; SHA of merged and synchronized
	Detail string `json:"detail"`
	From   string `json:"from,omitempty"` // of renamed: the title before
	To     string `json:"to,omitempty"`
}

// Request is one request to the API as it was answered.
type Request struct {
	N      int       `json:"n"`
	At     time.Time `json:"at"`
	Method string    `json:"method"`
	Path   string    `json:"path"` // below /api/v3, with query
	User   string    `json:"user"`
	Status int       `json:"status"` // 0: the connection was cut
	Fault  string    `json:"fault,omitempty"`
	// DuringLimit: it came while the credential had been asked to wait.
	DuringLimit bool `json:"during_limit,omitempty"`
}

// logLimit bounds the request log and the events; the oldest go.
const logLimit = 100_000

// event notes a change. s.mu is held.
func (s *Server) event(r *repo, i *issue, actor *user, kind, detail string) {
	i.updated = s.now()
	s.note(r, i, actor, kind, detail)
}

// note notes what does not count as a change of the issue. s.mu is held.
func (s *Server) note(r *repo, i *issue, actor *user, kind, detail string) {
	s.events = append(s.events, Event{
		ID: s.id(), At: s.now(), Issue: key(r, i), Actor: actor.login, Event: kind,
		Detail: detail,
	})
	if len(s.events) > logLimit {
		s.events = slices.Delete(s.events, 0, len(s.events)/10)
	}
}

// newIssue opens an issue. s.mu is held.
func (s *Server) newIssue(r *repo, u *user, title, body string, labels []string) *issue {
	i := &issue{id: s.id(), number: len(r.issues) + 1, title: title, body: body, author: u, created: s.now()}
	r.issues = append(r.issues, i)
	s.event(r, i, u, "opened", "")
	for _, l := range labels {
		s.addLabel(r, i, u, l)
	}
	return i
}

// addLabel puts a label on, creating it as GitHub does for people with write access. s.mu is held.
func (s *Server) addLabel(r *repo, i *issue, u *user, name string) {
	l := r.label(name)
	if l == nil {
		l = &label{id: s.id(), name: name, color: "ededed"}
		r.labels = append(r.labels, l)
	}
	if !i.has(name) {
		i.labels = append(i.labels, l.name)
		s.event(r, i, u, "labeled", l.name)
	}
}

// dropLabel takes a label off and reports whether it was there. s.mu is held.
func (s *Server) dropLabel(r *repo, i *issue, u *user, name string) bool {
	at := slices.IndexFunc(i.labels, func(l string) bool { return strings.EqualFold(l, name) })
	if at < 0 {
		return false
	}
	name = i.labels[at]
	i.labels = slices.Delete(i.labels, at, at+1)
	s.event(r, i, u, "unlabeled", name)
	return true
}

// comment adds a comment. s.mu is held.
func (s *Server) comment(r *repo, i *issue, u *user, body string) *comment {
	c := &comment{id: s.id(), author: u, body: body, created: s.now(), updated: s.now()}
	i.comments = append(i.comments, c)
	s.event(r, i, u, "commented", itoa(c.id))
	return c
}

// editBody changes the text of a comment. s.mu is held.
func (s *Server) editBody(r *repo, i *issue, c *comment, u *user, body string) {
	c.body, c.updated = body, s.now()
	s.event(r, i, u, "comment_edited", itoa(c.id))
}

// dropComment deletes a comment. s.mu is held.
func (s *Server) dropComment(r *repo, i *issue, u *user, id int64) {
	i.comments = slices.DeleteFunc(i.comments, func(c *comment) bool {
		if c.id == id {
			i.dropped = append(i.dropped, c)
		}
		return c.id == id
	})
	s.event(r, i, u, "comment_deleted", itoa(id))
}

// setState opens or closes. s.mu is held.
func (s *Server) setState(r *repo, i *issue, u *user, state string) {
	if state == i.state() || i.pull != nil && !i.pull.mergedAt.IsZero() && i.closed { // what was merged stays closed
		return
	}
	i.closed = state == "closed"
	if i.closed {
		i.closedAt, i.closedBy = s.now(), u
		s.event(r, i, u, "closed", "")
		return
	}
	i.closedAt, i.closedBy = time.Time{}, nil
	s.event(r, i, u, "reopened", "")
}
