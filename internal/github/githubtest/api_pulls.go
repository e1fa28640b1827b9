package githubtest

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
)

func (c *call) pull(i *issue, full bool) object {
	return c.to.pull(c.repo, i, c.sha(i.head), c.sha(i.base), full)
}

// sha is the commit of a branch; without git, a made-up one.
func (c *call) sha(branch string) string {
	sha, _ := c.commitOf(c.repo.fullName(), branch)
	return cmp.Or(sha, strings.Repeat("0", 40))
}

func (c *call) listPulls() {
	q := c.r.URL.Query()
	state := cmp.Or(q.Get("state"), "open")
	var all []*issue
	for _, i := range slices.Backward(c.repo.issues) { // newest first
		if i.head == "" || state != "all" && state != i.state() || q.Get("base") != "" && q.Get("base") != i.base {
			continue
		}
		// A head without its owner is ignored, as GitHub does.
		if h := q.Get("head"); strings.Contains(h, ":") && h != c.repo.owner.login+":"+i.head {
			continue
		}
		all = append(all, i)
	}
	writeJSON(c.w, http.StatusOK, objects(page(c, all), func(i *issue) object { return c.pull(i, false) }))
}

func (c *call) getPull() {
	if c.on.head == "" {
		c.fail(http.StatusNotFound, "Not Found")
		return
	}
	writeJSON(c.w, http.StatusOK, c.pull(c.on, true))
}

func (c *call) createPull() {
	title, _ := c.text("title")
	body, _ := c.text("body")
	head, _ := c.text("head")
	base, _ := c.text("base")
	head = strings.TrimPrefix(head, c.repo.owner.login+":")
	complain := func(message string) {
		c.fail(http.StatusUnprocessableEntity, "Validation Failed", object{"resource": "PullRequest", "code": "custom", "message": message})
	}
	if title == "" || head == "" || base == "" {
		c.invalid("PullRequest", "title", "missing_field")
		return
	}
	for _, i := range c.repo.issues {
		if i.head == head && i.base == base && !i.closed {
			complain("A pull request already exists for " + c.repo.owner.login + ":" + head + ".")
			return
		}
	}
	if c.opts.DataDir != "" {
		headSHA, headOK := c.commitOf(c.repo.fullName(), head)
		baseSHA, baseOK := c.commitOf(c.repo.fullName(), base)
		switch {
		case !headOK:
			c.invalid("PullRequest", "head", "invalid")
			return
		case !baseOK:
			c.invalid("PullRequest", "base", "invalid")
			return
		case headSHA == baseSHA:
			complain("No commits between " + base + " and " + head)
			return
		}
	}
	i := c.newIssue(c.repo, c.user, title, body, nil)
	i.head, i.base = head, base
	writeJSON(c.w, http.StatusCreated, c.pull(i, true))
}
