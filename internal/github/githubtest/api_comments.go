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

// longest comment or body, in characters.
const longest = 65_536

func (c *call) commentBody() (string, bool) {
	body, ok := c.text("body")
	switch {
	case !ok || strings.TrimSpace(body) == "":
		c.invalid("IssueComment", "body", "missing_field")
		return "", false
	case utf8.RuneCountInString(body) > longest:
		c.fail(http.StatusUnprocessableEntity, "Validation Failed", object{
			"resource": "IssueComment", "field": "data", "code": "unprocessable",
			"message": "Body is too long (maximum is 65536 characters)",
		})
		return "", false
	}
	return body, true
}

func (c *call) listComments() {
	since, _ := time.Parse(time.RFC3339, c.r.URL.Query().Get("since"))
	var all []*comment
	for _, m := range c.on.Comments {
		if !m.Updated.Before(since) {
			all = append(all, m)
		}
	}
	writeJSON(c.w, http.StatusOK,
		objects(page(c, all), func(m *comment) object { return c.to.comment(c.repo, c.on, m) }))
}

func (c *call) createComment() {
	if body, ok := c.commentBody(); ok {
		writeJSON(c.w, http.StatusCreated, c.to.comment(c.repo, c.on, c.comment(c.repo, c.on, c.user, body)))
	}
}

// listAllComments lists the comments of all issues and pull requests of a repository, those of reviews excepted.
func (c *call) listAllComments() {
	since, err := c.since()
	if err != nil {
		return
	}
	type placed struct {
		on *issue
		*comment
	}
	var all []placed
	for _, i := range c.repo.Issues {
		for _, m := range i.Comments {
			if !i.Deleted && i.MovedTo == "" && !m.Updated.Before(since) {
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
	if q.Get("sort") != "" && q.Get("direction") != "asc" { // the direction counts only together with a sort
		slices.Reverse(all)
	}
	writeJSON(c.w, http.StatusOK,
		objects(page(c, all), func(p placed) object { return c.to.comment(c.repo, p.on, p.comment) }))
}

// findComment finds the comment that the path names, and its issue.
func (c *call) findComment() (*issue, *comment) {
	id, _ := strconv.ParseInt(c.r.PathValue("id"), 10, 64)
	for _, i := range c.repo.Issues {
		for _, m := range i.Comments {
			if m.ID == id && !i.Deleted {
				return i, m
			}
		}
	}
	c.fail(http.StatusNotFound, "Not Found")
	return nil, nil
}

func (c *call) getComment() {
	if i, m := c.findComment(); m != nil {
		writeJSON(c.w, http.StatusOK, c.to.comment(c.repo, i, m))
	}
}

func (c *call) editComment() {
	i, m := c.findComment()
	if m == nil {
		return
	}
	if m.Author != c.user && !c.repo.mayWrite(c.user) {
		c.fail(http.StatusForbidden, "Must have admin rights to Repository.")
		return
	}
	if body, ok := c.commentBody(); ok {
		c.editBody(c.repo, i, m, c.user, body)
		writeJSON(c.w, http.StatusOK, c.to.comment(c.repo, i, m))
	}
}

func (c *call) deleteComment() {
	i, m := c.findComment()
	if m == nil {
		return
	}
	if m.Author != c.user && !c.repo.mayWrite(c.user) {
		c.fail(http.StatusForbidden, "Must have admin rights to Repository.")
		return
	}
	c.dropComment(c.repo, i, c.user, m.ID)
	c.w.WriteHeader(http.StatusNoContent)
}
