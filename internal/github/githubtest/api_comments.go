package githubtest

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// longest is the limit for a comment or body, in characters.
const longest = 65_536

func (c *call) commentBody() (string, reply) {
	body := c.field("body")
	switch {
	case strings.TrimSpace(body) == "":
		return "", invalid("IssueComment", "body", "missing_field")
	case utf8.RuneCountInString(body) > longest:
		return "", failed(http.StatusUnprocessableEntity, "Validation Failed", object{
			"resource": "IssueComment", "field": "data", "code": "unprocessable",
			"message": "Body is too long (maximum is 65536 characters)",
		})
	}
	return body, reply{}
}

func listComments(c *call) reply {
	since, _ := time.Parse(time.RFC3339, c.r.URL.Query().Get("since"))
	all := slices.DeleteFunc(slices.Clone(c.on.Comments), func(m *comment) bool { return m.Updated.Before(since) })
	return list(c, all, func(m *comment) object { return c.to.comment(c.repo, c.on, m) })
}

func createComment(c *call) reply {
	body, no := c.commentBody()
	if no.status != 0 {
		return no
	}
	return created(c.to.comment(c.repo, c.on, c.comment(c.repo, c.on, c.user, body)))
}

// listAllComments lists the comments of a repository's issues and pull requests, without review comments.
func listAllComments(c *call) reply {
	since, no := c.since("Comment")
	if no.status != 0 {
		return no
	}
	type placed struct {
		on *issue
		*comment
	}
	var all []placed
	for _, i := range c.repo.Issues {
		for _, m := range i.Comments {
			if i.there() && !m.Updated.Before(since) {
				all = append(all, placed{i, m})
			}
		}
	}
	q := c.r.URL.Query()
	slices.SortFunc(all, func(a, b placed) int {
		if q.Get("sort") == "updated" {
			return cmp.Or(a.Updated.Compare(b.Updated), cmp.Compare(a.ID, b.ID))
		}
		return cmp.Compare(a.ID, b.ID)
	})
	if q.Get("sort") != "" && q.Get("direction") != "asc" { // GitHub ignores the direction without a sort
		slices.Reverse(all)
	}
	return list(c, all, func(p placed) object { return c.to.comment(c.repo, p.on, p.comment) })
}

// findComment finds the comment in the path, and its issue.
func (c *call) findComment() {
	id, _ := strconv.ParseInt(c.r.PathValue("id"), 10, 64)
	for _, i := range c.repo.Issues {
		for _, m := range i.Comments {
			if m.ID == id && !i.Deleted {
				c.on, c.said = i, m
			}
		}
	}
}

func getComment(c *call) reply { return ok(c.to.comment(c.repo, c.on, c.said)) }

func editComment(c *call) reply {
	body, no := c.commentBody()
	if no.status != 0 {
		return no
	}
	c.editBody(c.repo, c.on, c.said, c.user, body)
	return getComment(c)
}

func deleteComment(c *call) reply {
	c.dropComment(c.repo, c.on, c.user, c.said.ID)
	return noContent
}

func sendLabels(c *call) reply { return ok(c.to.labels(c.repo, c.on.Labels)) }
