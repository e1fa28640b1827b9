package githubtest

import (
	"encoding/json"
	"net/http"
	"strings"
)

func listReviews(c *call) reply { return list(c, c.on.Pull.Reviews, c.reviewObject) }

func (c *call) reviewObject(v *review) object {
	o := c.to.pullPart(c.repo, c.on, v.Author, "#pullrequestreview-"+itoa(v.ID))
	o["id"], o["node_id"], o["body"], o["state"] = v.ID, nodeID("PullRequestReview", v.ID), v.Body, v.State
	o["commit_id"], o["submitted_at"] = v.SHA, stamp(v.Submitted)
	return o
}

// pullPart returns the fields that reviews and their comments have in common.
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

// reviewEvents maps each event that a client may send to the resulting state of the review. Pending reviews,
// which have no event, are not supported.
var reviewEvents = map[string]string{
	"APPROVE": stateApproved, "REQUEST_CHANGES": stateChanges,
	"COMMENT": stateCommented,
}

func createReview(c *call) reply {
	state, body := reviewEvents[c.field("event")], c.field("body")
	var inline []Inline
	_ = json.Unmarshal(c.body["comments"], &inline)
	own := map[string]string{
		stateApproved: "Can not approve your own pull request",
		stateChanges:  "Can not request changes on your own pull request",
	}[state]
	switch {
	case state == "":
		return invalid("PullRequestReview", "event", "invalid")
	case own != "" && c.user == c.on.Author:
		return failed(http.StatusUnprocessableEntity, "Unprocessable Entity", own)
	case strings.TrimSpace(body) == "" && (state == stateChanges || state == stateCommented && len(inline) == 0):
		return invalid("PullRequestReview", "body", "missing_field")
	}
	for _, m := range inline {
		if m.Path == "" || m.Line < 1 || strings.TrimSpace(m.Body) == "" {
			return invalid("PullRequestReview", "comments", "invalid")
		}
	}
	c.followHeads(c.repo, c.repo.Owner)
	return ok(c.reviewObject(c.addReview(c.repo, c.on, c.user, state, body, inline)))
}

func listCommentsOfReview(c *call) reply {
	return list(c, c.review.Comments, func(m *reviewComment) object { return c.reviewComment(c.review, m) })
}

func listReviewComments(c *call) reply {
	since, no := c.since("Comment")
	if no.status != 0 {
		return no
	}
	var all []object
	for _, v := range c.on.Pull.Reviews {
		for _, m := range v.Comments {
			if !m.Created.Before(since) {
				all = append(all, c.reviewComment(v, m))
			}
		}
	}
	return list(c, all, func(o object) object { return o })
}

func dismissReview(c *call) reply {
	v := c.review
	if v.State != stateApproved && v.State != stateChanges {
		return failed(http.StatusUnprocessableEntity, "Unprocessable Entity",
			"Can not dismiss a "+strings.ToLower(v.State)+" pull request review")
	}
	c.dismiss(c.repo, c.on, c.user, v)
	return ok(c.reviewObject(v))
}
