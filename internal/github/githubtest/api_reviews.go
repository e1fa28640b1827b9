package githubtest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (c *call) listReviews() {
	writeJSON(c.w, http.StatusOK, objects(page(c, c.on.Pull.Reviews), c.review))
}

func (c *call) review(v *review) object {
	o := c.to.pullPart(c.repo, c.on, v.Author, "#pullrequestreview-"+itoa(v.ID))
	o["id"], o["node_id"], o["body"], o["state"] = v.ID, nodeID("PullRequestReview", v.ID), v.Body, v.State
	o["commit_id"], o["submitted_at"] = v.SHA, stamp(v.Submitted)
	return o
}

// pullPart is what reviews and their comments have in common.
func (l links) pullPart(r *repo, i *issue, author *user, fragment string) object {
	pull := l.api + "/repos/" + r.fullName() + "/pulls/" + itoa(i.Number)
	html := l.page(r, i) + fragment
	return object{
		"user": l.user(author), "author_association": r.association(author), "html_url": html, "pull_request_url": pull,
		"_links": object{"html": object{"href": html}, "pull_request": object{"href": pull}},
	}
}

func (c *call) reviewComment(v *review, m *reviewComment) object {
	o := c.to.pullPart(c.repo, c.on, v.Author, "#discussion_r"+itoa(m.ID))
	url := c.to.api + "/repos/" + c.repo.fullName() + "/pulls/comments/" + itoa(m.ID)
	o["_links"].(object)["self"] = object{"href": url}
	o["id"], o["node_id"], o["url"], o["pull_request_review_id"] = m.ID, nodeID("PullRequestReviewComment", m.ID), url,
		v.ID
	o["path"], o["line"], o["original_line"], o["side"], o["body"], o["diff_hunk"] = m.Path, m.Line, m.Line, "RIGHT",
		m.Body, ""
	o["commit_id"], o["original_commit_id"], o["created_at"], o["updated_at"] = v.SHA, v.SHA, stamp(m.Created),
		stamp(m.Created)
	return o
}

// reviewEvents are what a client may do with a review, and the state that it has then. Reviews that are kept back until
// later (no event) are not played.
var reviewEvents = map[string]string{
	"APPROVE": stateApproved, "REQUEST_CHANGES": stateChanges,
	"COMMENT": stateCommented,
}

func (c *call) createReview() {
	event, _ := c.text("event")
	body, _ := c.text("body")
	var inline []Inline
	_ = json.Unmarshal(c.body["comments"], &inline)
	state := reviewEvents[event]
	own := map[string]string{
		stateApproved: "Can not approve your own pull request",
		stateChanges:  "Can not request changes on your own pull request",
	}[state]
	switch {
	case state == "":
		c.invalid("PullRequestReview", "event", "invalid")
		return
	case own != "" && c.user == c.on.Author:
		c.fail(http.StatusUnprocessableEntity, "Unprocessable Entity", own)
		return
	case strings.TrimSpace(body) == "" && (state == stateChanges || state == stateCommented && len(inline) == 0):
		c.invalid("PullRequestReview", "body", "missing_field")
		return
	}
	for _, m := range inline {
		if m.Path == "" || m.Line < 1 || strings.TrimSpace(m.Body) == "" {
			c.invalid("PullRequestReview", "comments", "invalid")
			return
		}
	}
	c.followHeads(c.repo, c.repo.Owner)
	writeJSON(c.w, http.StatusOK, c.review(c.addReview(c.repo, c.on, c.user, state, body, inline)))
}

// findReview finds the review that the path names. After nil the request is answered.
func (c *call) findReview() *review {
	id, _ := strconv.ParseInt(c.r.PathValue("review"), 10, 64)
	at := slices.IndexFunc(c.on.Pull.Reviews, func(v *review) bool { return v.ID == id })
	if at < 0 {
		c.fail(http.StatusNotFound, "Not Found")
		return nil
	}
	return c.on.Pull.Reviews[at]
}

func (c *call) listCommentsOfReview() {
	if v := c.findReview(); v != nil {
		writeJSON(c.w, http.StatusOK,
			objects(page(c, v.Comments), func(m *reviewComment) object { return c.reviewComment(v, m) }))
	}
}

func (c *call) listReviewComments() {
	since, err := c.since()
	if err != nil {
		return
	}
	var all []object
	for _, v := range c.on.Pull.Reviews {
		for _, m := range v.Comments {
			if !m.Created.Before(since) {
				all = append(all, c.reviewComment(v, m))
			}
		}
	}
	writeJSON(c.w, http.StatusOK, objects(page(c, all), func(o object) object { return o }))
}

// since reads the parameter of that name; after an error the request is answered.
func (c *call) since() (time.Time, error) {
	text := c.r.URL.Query().Get("since")
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		c.invalid("Comment", "since", "invalid")
	}
	return at, err
}

func (c *call) dismissReview() {
	v := c.findReview()
	if v == nil {
		return
	}
	if v.State != stateApproved && v.State != stateChanges {
		c.fail(http.StatusUnprocessableEntity, "Unprocessable Entity", "Can not dismiss a "+strings.ToLower(v.State)+
			" pull request review")
		return
	}
	c.dismiss(c.repo, c.on, c.user, v)
	writeJSON(c.w, http.StatusOK, c.review(v))
}
