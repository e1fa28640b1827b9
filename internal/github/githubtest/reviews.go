package githubtest

import "time"

// review is one person's opinion of a pull request.
type review struct {
	ID        int64            `json:"id"`
	Author    *user            `json:"author"`
	State     string           `json:"state"`
	Body      string           `json:"body,omitempty"`
	SHA       string           `json:"sha"` // the reviewed commit
	Submitted time.Time        `json:"submitted"`
	Comments  []*reviewComment `json:"comments,omitempty"`
}

// reviewComment is a comment on a line of a file.
type reviewComment struct {
	ID      int64     `json:"id"`
	Path    string    `json:"path"`
	Line    int       `json:"line"`
	Body    string    `json:"body"`
	Created time.Time `json:"created"`
}

// States of a review.
const (
	stateApproved  = "APPROVED"
	stateChanges   = "CHANGES_REQUESTED"
	stateCommented = "COMMENTED"
	stateDismissed = "DISMISSED"
)

// Inline is a review's comment on a line of a file.
type Inline struct {
	Path string `json:"path"`
	Line int    `json:"line"` // from 1
	Body string `json:"body"`
}

// addReview adds a review of the head. s.mu is held.
func (s *store) addReview(r *repo, i *issue, u *user, state, body string, inline []Inline) *review {
	v := &review{ID: s.id(), Author: u, State: state, Body: body, SHA: i.Pull.HeadSHA, Submitted: s.now()}
	for _, c := range inline {
		v.Comments = append(v.Comments, &reviewComment{s.id(), c.Path, c.Line, c.Body, s.now()})
	}
	i.Pull.Reviews = append(i.Pull.Reviews, v)
	s.event(r, i, u, "reviewed", itoa(v.ID))
	return v
}

// dismiss dismisses a review. s.mu is held.
func (s *store) dismiss(r *repo, i *issue, u *user, v *review) {
	v.State = stateDismissed
	s.event(r, i, u, "review_dismissed", itoa(v.ID))
}
