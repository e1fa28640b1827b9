package githubtest

import "time"

// review is one person's opinion of a pull request.
type review struct {
	id        int64
	author    *user
	state     string
	body      string
	sha       string // that was reviewed
	submitted time.Time
	comments  []*reviewComment
}

// reviewComment stands at a line of a file.
type reviewComment struct {
	id         int64
	path, body string
	line       int
	created    time.Time
}

// States of a review.
const (
	stateApproved  = "APPROVED"
	stateChanges   = "CHANGES_REQUESTED"
	stateCommented = "COMMENTED"
	stateDismissed = "DISMISSED"
)

// Inline is a comment of a review at a line of a file.
type Inline struct {
	Path string `json:"path"`
	Line int    `json:"line"` // from 1
	Body string `json:"body"`
}

// addReview adds a review of the head. s.mu is held.
func (s *Server) addReview(r *repo, i *issue, u *user, state, body string, inline []Inline) *review {
	v := &review{id: s.id(), author: u, state: state, body: body, sha: i.pull.headSHA, submitted: s.now()}
	for _, c := range inline {
		v.comments = append(v.comments, &reviewComment{s.id(), c.Path, c.Body, c.Line, s.now()})
	}
	i.pull.reviews = append(i.pull.reviews, v)
	s.event(r, i, u, "reviewed", itoa(v.id))
	return v
}

// dismiss takes a review back. s.mu is held.
func (s *Server) dismiss(r *repo, i *issue, u *user, v *review) {
	v.state = stateDismissed
	s.event(r, i, u, "review_dismissed", itoa(v.id))
}
