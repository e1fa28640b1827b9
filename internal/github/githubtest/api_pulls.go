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

func listPulls(c *call) reply {
	c.followHeads(c.repo, c.repo.Owner)
	q := c.r.URL.Query()
	state := cmp.Or(q.Get("state"), "open")
	var all []*issue
	for _, i := range slices.Backward(c.repo.Issues) { // newest first
		if i.Pull == nil || state != "all" && state != i.state() || q.Get("base") != "" && q.Get("base") != i.Base {
			continue
		}
		// Like GitHub, ignore a head without an owner.
		if h := q.Get("head"); strings.Contains(h, ":") && h != c.repo.Owner.login+":"+i.Head {
			continue
		}
		all = append(all, i)
	}
	return list(c, all, func(i *issue) object { return c.pull(i, false) })
}

func getPull(c *call) reply {
	c.followHeads(c.repo, c.repo.Owner)
	o := c.pull(c.on, true)
	c.testMerge(c.repo, c.on) // so that the next request finds the result
	return ok(o)
}

func complain(message string) reply {
	return failed(http.StatusUnprocessableEntity, "Validation Failed",
		object{"resource": "PullRequest", "code": "custom", "message": message})
}

func createPull(c *call) reply {
	var draft bool
	_ = json.Unmarshal(c.body["draft"], &draft)
	i, refused := c.openPull(c.repo, c.field("title"), c.field("body"), c.field("head"), c.field("base"), draft)
	if i == nil {
		return refused
	}
	return created(c.pull(i, true))
}

// openPull opens a pull request, or returns nil and the reply with the reason.
func (c *call) openPull(r *repo, title, body, head, base string, draft bool) (*issue, reply) {
	owner := r.Owner.login
	head = strings.TrimPrefix(head, owner+":")
	if title == "" || head == "" || base == "" {
		return nil, invalid("PullRequest", "title", "missing_field")
	}
	for _, i := range r.Issues {
		if i.Head == head && i.Base == base && !i.Closed {
			return nil, complain("A pull request already exists for " + owner + ":" + head + ".")
		}
	}
	if c.opts.DataDir != "" {
		headSHA, headOK := c.commitOf(r.fullName(), head)
		baseSHA, baseOK := c.commitOf(r.fullName(), base)
		switch {
		case !headOK:
			return nil, invalid("PullRequest", "head", "invalid")
		case !baseOK:
			return nil, invalid("PullRequest", "base", "invalid")
		case headSHA == baseSHA:
			return nil, complain("No commits between " + base + " and " + head)
		}
	}
	return c.newPull(r, c.user, title, body, head, base, draft), reply{}
}

// editPull changes title, body, state and base.
func editPull(c *call) reply {
	i := c.on
	c.followHeads(c.repo, c.repo.Owner)
	state, hasState := c.text("state")
	base, hasBase := c.text("base")
	switch _, there := c.tip(c.repo, base); {
	case hasState && state != "open" && state != "closed", hasState && state == "open" && i.Closed && !c.mayReopen(i):
		return invalid("PullRequest", "state", "invalid")
	case hasBase && (!there || i.Closed):
		return invalid("PullRequest", "base", "invalid")
	}
	i.Title = cmp.Or(c.field("title"), i.Title)
	if body, given := c.text("body"); given {
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
	return ok(c.pull(i, true))
}

// mayReopen reports whether a pull request was not merged and its head branch still exists.
func (c *call) mayReopen(i *issue) bool {
	_, there := c.tip(c.repo, i.Head)
	return there && i.Pull.MergedAt.IsZero()
}

func isMerged(c *call) reply {
	if c.on.Pull.MergedAt.IsZero() {
		return notFound
	}
	return noContent
}

func putMerge(c *call) reply {
	method, want := c.field("merge_method"), c.field("sha")
	c.followHeads(c.repo, c.repo.Owner)
	switch {
	case method == "rebase":
		return failed(http.StatusMethodNotAllowed, "Rebase merges are not allowed on this repository.")
	case !slices.Contains([]string{"", "merge", "squash"}, method):
		return invalid("PullRequest", "merge_method", "invalid")
	case want != "" && want != c.on.Pull.HeadSHA && !c.on.Closed:
		return failed(http.StatusConflict, "Head branch was modified. Review and try the merge again.")
	}
	sha, err := c.mergePull(c.repo, c.on, c.user,
		mergeRequest{method == "squash", c.field("commit_title"), c.field("commit_message")})
	switch {
	case errors.Is(err, errNotMergeable):
		return failed(http.StatusMethodNotAllowed, err.Error())
	case err != nil:
		return failed(http.StatusInternalServerError, err.Error())
	}
	return ok(object{"sha": sha, "merged": true, "message": "Pull Request successfully merged"})
}
