package githubtest

import (
	"slices"
	"strings"
	"time"
)

// user is a login with a token.
type user struct {
	id    int64
	login string // the only field in JSON
	token string
	bot   bool
}

func (u *user) MarshalText() ([]byte, error) { return []byte(u.login), nil }

func (u *user) UnmarshalText(login []byte) error {
	u.login = string(login)
	return nil
}

type label struct {
	ID          int64  `json:"id"`
	Name        string `json:"name"`
	Color       string `json:"color"`
	Description string `json:"description,omitempty"`
}

type comment struct {
	ID        int64       `json:"id"`
	Author    *user       `json:"author"`
	Body      string      `json:"body"`
	Created   time.Time   `json:"created"`
	Updated   time.Time   `json:"updated"`
	Reactions []*reaction `json:"reactions,omitempty"`
}

// issue is an issue or, with pull set, a pull request.
type issue struct {
	ID        int64        `json:"id"`
	Number    int          `json:"number"`
	Title     string       `json:"title"`
	Body      string       `json:"body"`
	Author    *user        `json:"author"`
	Closed    bool         `json:"closed,omitempty"`
	Created   time.Time    `json:"created"`
	Updated   time.Time    `json:"updated"`
	ClosedAt  time.Time    `json:"closed_at,omitzero"`
	Labels    []string     `json:"labels"`
	Edits     []*edit      `json:"edits,omitempty"` // versions of the body, oldest first
	Comments  []*comment   `json:"comments"`
	Head      string       `json:"head,omitempty"` // branches of a pull request
	Base      string       `json:"base,omitempty"`
	Pull      *pullRequest `json:"pull,omitempty"`
	ClosedBy  *user        `json:"closed_by,omitempty"`
	MovedTo   string       `json:"moved_to,omitempty"` // "owner/repo#n" after a transfer
	Deleted   bool         `json:"deleted,omitempty"`
	blockedBy []*issue
	parent    *issue
	dropped   []*comment // deleted comments
}

type repo struct {
	ID            int64             `json:"id"`
	Owner         *user             `json:"owner"`
	Name          string            `json:"name"`
	Collaborators map[string]string `json:"collaborators"` // login → read | triage | write | maintain | admin
	Labels        []*label          `json:"labels"`
	Issues        []*issue          `json:"issues"` // by number, from 1
	Created       time.Time         `json:"created"`
	MovedTo       string            `json:"moved_to,omitempty"` // "owner/name" after a rename
	Checks        []*checkRun       `json:"checks,omitempty"`
	Statuses      []*commitStatus   `json:"statuses,omitempty"`
	Branches      map[string]string `json:"branches,omitempty"` // commits of branches; only without git
	Protection    Protection        `json:"protection,omitzero"`
}

func (r *repo) fullName() string { return r.Owner.login + "/" + r.Name }

func (r *repo) issue(n int) *issue {
	if n < 1 || n > len(r.Issues) {
		return nil
	}
	return r.Issues[n-1]
}

func (r *repo) label(name string) *label {
	for _, l := range r.Labels {
		if strings.EqualFold(l.Name, name) {
			return l
		}
	}
	return nil
}

// permission returns a user's permission. The owner is an admin. Everyone may read the public repositories.
func (r *repo) permission(u *user) string {
	if u == r.Owner {
		return "admin"
	}
	if p, ok := r.Collaborators[u.login]; ok {
		return p
	}
	return "read"
}

func (r *repo) mayWrite(u *user) bool {
	return slices.Contains([]string{"admin", "maintain", "write"}, r.permission(u))
}

// mayTriage reports whether a user may label, close and reopen issues.
func (r *repo) mayTriage(u *user) bool { return r.permission(u) == "triage" || r.mayWrite(u) }

func (r *repo) association(u *user) string {
	if u == r.Owner {
		return "OWNER"
	}
	if _, ok := r.Collaborators[u.login]; ok {
		return "COLLABORATOR"
	}
	return "NONE"
}

func (i *issue) has(name string) bool {
	return slices.ContainsFunc(i.Labels, func(l string) bool { return strings.EqualFold(l, name) })
}

// there reports whether the issue still exists. It may have been deleted or transferred.
func (i *issue) there() bool { return !i.Deleted && i.MovedTo == "" }

func (i *issue) state() string {
	if i.Closed {
		return "closed"
	}
	return "open"
}

// Event is a change to an issue about which GitHub notifies people.
type Event struct {
	ID    int64     `json:"id"`
	At    time.Time `json:"at"`
	Issue string    `json:"issue"` // owner/repo#n
	Actor string    `json:"actor"`
	// opened closed reopened edited renamed labeled unlabeled commented comment_edited comment_deleted reacted
	// unreacted merged synchronized reviewed review_dismissed ready_for_review convert_to_draft
	Event string `json:"event"`
	// the label, the id of a comment or review, the reaction and its comment id, or the SHA (for merged and
	// synchronized)
	Detail string `json:"detail"`
	From   string `json:"from,omitempty"` // the earlier title (for renamed)
	To     string `json:"to,omitempty"`
}

// Request is one answered request to the API.
type Request struct {
	N      int       `json:"n"`
	At     time.Time `json:"at"`
	Method string    `json:"method"`
	Path   string    `json:"path"` // below /api/v3, with query
	User   string    `json:"user"`
	Status int       `json:"status"` // 0 for a cut connection
	Fault  string    `json:"fault,omitempty"`
	// DuringLimit is set if the client should have waited for a rate limit.
	DuringLimit bool `json:"during_limit,omitempty"`
}

// logLimit is the maximum number of logged requests, and of events. New entries replace the oldest.
const logLimit = 100_000

// event records a change to an issue. s.mu is held.
func (s *store) event(r *repo, i *issue, actor *user, kind, detail string) {
	i.Updated = s.now()
	s.note(r, i, actor, kind, detail)
}

// note records an event that does not count as a change to the issue. s.mu is held.
func (s *store) note(r *repo, i *issue, actor *user, kind, detail string) {
	s.events = append(s.events, Event{
		ID: s.id(), At: s.now(), Issue: key(r, i), Actor: actor.login, Event: kind,
		Detail: detail,
	})
	if len(s.events) > logLimit {
		s.events = slices.Delete(s.events, 0, len(s.events)/10)
	}
}

// newIssue opens an issue. s.mu is held.
func (s *store) newIssue(r *repo, u *user, title, body string, labels []string) *issue {
	i := &issue{ID: s.id(), Number: len(r.Issues) + 1, Title: title, Body: body, Author: u, Created: s.now()}
	r.Issues = append(r.Issues, i)
	s.event(r, i, u, "opened", "")
	for _, l := range labels {
		s.addLabel(r, i, u, l)
	}
	return i
}

// addLabel adds a label to an issue. It creates a missing label, as GitHub does for people with write access. s.mu is
// held.
func (s *store) addLabel(r *repo, i *issue, u *user, name string) {
	l := r.label(name)
	if l == nil {
		l = &label{ID: s.id(), Name: name, Color: "ededed"}
		r.Labels = append(r.Labels, l)
	}
	if !i.has(name) {
		i.Labels = append(i.Labels, l.Name)
		s.event(r, i, u, "labeled", l.Name)
	}
}

// dropLabel removes a label and reports whether the issue had it. s.mu is held.
func (s *store) dropLabel(r *repo, i *issue, u *user, name string) bool {
	at := slices.IndexFunc(i.Labels, func(l string) bool { return strings.EqualFold(l, name) })
	if at < 0 {
		return false
	}
	name = i.Labels[at]
	i.Labels = slices.Delete(i.Labels, at, at+1)
	s.event(r, i, u, "unlabeled", name)
	return true
}

// comment adds a comment. s.mu is held.
func (s *store) comment(r *repo, i *issue, u *user, body string) *comment {
	c := &comment{ID: s.id(), Author: u, Body: body, Created: s.now(), Updated: s.now()}
	i.Comments = append(i.Comments, c)
	s.event(r, i, u, "commented", itoa(c.ID))
	return c
}

// editBody changes the text of a comment. s.mu is held.
func (s *store) editBody(r *repo, i *issue, c *comment, u *user, body string) {
	c.Body, c.Updated = body, s.now()
	s.event(r, i, u, "comment_edited", itoa(c.ID))
}

// dropComment deletes a comment. s.mu is held.
func (s *store) dropComment(r *repo, i *issue, u *user, id int64) {
	i.Comments = slices.DeleteFunc(i.Comments, func(c *comment) bool {
		if c.ID == id {
			i.dropped = append(i.dropped, c)
		}
		return c.ID == id
	})
	s.event(r, i, u, "comment_deleted", itoa(id))
}

// setState opens or closes an issue. s.mu is held.
func (s *store) setState(r *repo, i *issue, u *user, state string) {
	if state == i.state() || i.Pull != nil && !i.Pull.MergedAt.IsZero() && i.Closed { // merged is closed
		return
	}
	i.Closed = state == "closed"
	if i.Closed {
		i.ClosedAt, i.ClosedBy = s.now(), u
		s.event(r, i, u, "closed", "")
		return
	}
	i.ClosedAt, i.ClosedBy = time.Time{}, nil
	s.event(r, i, u, "reopened", "")
}

func (u *user) orNone() string {
	if u == nil {
		return ""
	}
	return u.login
}
