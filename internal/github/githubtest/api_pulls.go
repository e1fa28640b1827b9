package githubtest

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
)

func (c *call) pull(i *issue, full bool) object {
	o := c.to.pull(c.repo, i)
	if full {
		c.to.addMerge(o, i)
		if p := i.Pull; p.MergedAt.IsZero() && p.merge.of == p.commits() {
			o["mergeable"], o["rebaseable"], o["mergeable_state"] = p.merge.clean, p.merge.clean,
				c.mergeState(c.repo, i)
		}
	}
	return o
}

func (c *call) listPulls() {
	c.followHeads(c.repo, c.repo.Owner)
	q := c.r.URL.Query()
	state := cmp.Or(q.Get("state"), "open")
	var all []*issue
	for _, i := range slices.Backward(c.repo.Issues) { // newest first
		if i.Pull == nil || state != "all" && state != i.state() || q.Get("base") != "" && q.Get("base") != i.Base {
			continue
		}
		// A head without its owner is ignored, as GitHub does.
		if h := q.Get("head"); strings.Contains(h, ":") && h != c.repo.Owner.login+":"+i.Head {
			continue
		}
		all = append(all, i)
	}
	writeJSON(c.w, http.StatusOK, objects(page(c, all), func(i *issue) object { return c.pull(i, false) }))
}

func (c *call) getPull() {
	c.followHeads(c.repo, c.repo.Owner)
	writeJSON(c.w, http.StatusOK, c.pull(c.on, true))
	c.testMerge(c.repo, c.on) // the next to ask is told
}

func (c *call) complain(message string) {
	c.fail(http.StatusUnprocessableEntity, "Validation Failed", object{
		"resource": "PullRequest", "code": "custom",
		"message": message,
	})
}

func (c *call) createPull() {
	title, _ := c.text("title")
	body, _ := c.text("body")
	head, _ := c.text("head")
	base, _ := c.text("base")
	head = strings.TrimPrefix(head, c.repo.Owner.login+":")
	if title == "" || head == "" || base == "" {
		c.invalid("PullRequest", "title", "missing_field")
		return
	}
	for _, i := range c.repo.Issues {
		if i.Head == head && i.Base == base && !i.Closed {
			c.complain("A pull request already exists for " + c.repo.Owner.login + ":" + head + ".")
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
			c.complain("No commits between " + base + " and " + head)
			return
		}
	}
	writeJSON(c.w, http.StatusCreated, c.pull(c.newPull(c.repo, c.user, title, body, head, base, c.flag("draft")),
		true))
}

// flag reads a field of the body that is true or false.
func (c *call) flag(field string) (on bool) {
	_ = json.Unmarshal(c.body[field], &on)
	return on
}

// editPull changes title, body, state and base. Its author and people with write access may.
func (c *call) editPull() {
	c.followHeads(c.repo, c.repo.Owner)
	i := c.on
	if i.Author != c.user && !c.repo.mayWrite(c.user) {
		c.fail(http.StatusForbidden, "Must have admin rights to Repository.")
		return
	}
	state, hasState := c.text("state")
	base, hasBase := c.text("base")
	switch _, there := c.tip(c.repo, base); {
	case hasState && state != "open" && state != "closed":
		c.invalid("PullRequest", "state", "invalid")
		return
	case hasState && state == "open" && i.Closed && !c.mayReopen(i):
		c.invalid("PullRequest", "state", "invalid")
		return
	case hasBase && (!there || i.Closed):
		c.invalid("PullRequest", "base", "invalid")
		return
	}
	if title, ok := c.text("title"); ok && title != "" {
		i.Title = title
	}
	if body, ok := c.text("body"); ok {
		i.Body = body
	}
	if hasBase {
		i.Base = base
	}
	if hasState {
		c.setState(c.repo, i, c.user, state)
	}
	i.Updated = c.now()
	c.followHeads(c.repo, c.user)
	writeJSON(c.w, http.StatusOK, c.pull(i, true))
}

// mayReopen: what was merged stays so, and without its head there is nothing to open.
func (c *call) mayReopen(i *issue) bool {
	_, there := c.tip(c.repo, i.Head)
	return there && i.Pull.MergedAt.IsZero()
}

func (c *call) isMerged() {
	if c.on.Pull.MergedAt.IsZero() {
		c.fail(http.StatusNotFound, "Not Found")
		return
	}
	c.w.WriteHeader(http.StatusNoContent)
}

func (c *call) putMerge() {
	method, _ := c.text("merge_method")
	title, _ := c.text("commit_title")
	message, _ := c.text("commit_message")
	want, _ := c.text("sha")
	c.followHeads(c.repo, c.repo.Owner)
	switch {
	case method == "rebase":
		c.fail(http.StatusMethodNotAllowed, "Rebase merges are not allowed on this repository.")
		return
	case !slices.Contains([]string{"", "merge", "squash"}, method):
		c.invalid("PullRequest", "merge_method", "invalid")
		return
	case want != "" && want != c.on.Pull.HeadSHA && !c.on.Closed:
		c.fail(http.StatusConflict, "Head branch was modified. Review and try the merge again.")
		return
	}
	sha, err := c.mergePull(c.repo, c.on, c.user, mergeRequest{method == "squash", title, message})
	switch {
	case errors.Is(err, errNotMergeable):
		c.fail(http.StatusMethodNotAllowed, err.Error())
	case err != nil:
		c.fail(http.StatusInternalServerError, err.Error())
	default:
		writeJSON(c.w, http.StatusOK, object{"sha": sha, "merged": true, "message": "Pull Request successfully merged"})
	}
}
