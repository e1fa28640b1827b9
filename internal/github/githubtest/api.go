package githubtest

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

func getUser(c *call) reply {
	if c.user.token == "" { // the account of an App; the tokens belong to the installation
		return failed(http.StatusForbidden, "Resource not accessible by integration")
	}
	return ok(c.to.me(c.user))
}

func getRateLimit(c *call) reply {
	b, limit := c.gate.budgetOf(c.gate.apps.caller(c.r).budget), c.opts.RateLimit
	core := object{"limit": limit, "used": b.Used, "remaining": max(0, limit-b.Used), "reset": b.Reset.Unix()}
	return ok(object{"resources": object{"core": core, "search": core}, "rate": core})
}

func getRepo(c *call) reply {
	o := c.to.repo(c.repo)
	o["permissions"] = c.repo.rights(c.user)
	return ok(o)
}

// rights returns the permissions that GitHub lists for a user.
func (r *repo) rights(u *user) object {
	role := r.permission(u)
	return object{
		"admin": role == "admin", "maintain": role == "admin" || role == "maintain", "push": r.mayWrite(u),
		"triage": r.mayTriage(u), "pull": true,
	}
}

func isCollaborator(c *call) reply {
	login := c.r.PathValue("login")
	if _, is := c.repo.Collaborators[login]; !is && c.users[login] != c.repo.Owner {
		return notFound
	}
	return noContent
}

func getPermission(c *call) reply {
	u := c.users[c.r.PathValue("login")]
	if u == nil {
		return notFound
	}
	role := c.repo.permission(u)
	coarse := map[string]string{"maintain": "write", "triage": "read"}
	who := c.to.user(u)
	who["role_name"], who["permissions"] = role, c.repo.rights(u)
	return ok(object{"permission": cmp.Or(coarse[role], role), "role_name": role, "user": who})
}

// issueOrders maps the parameter sort to the order of listed issues.
var issueOrders = map[string]func(a, b *issue) int{
	"created": func(a, b *issue) int { return cmp.Compare(a.Number, b.Number) },
	"updated": func(a, b *issue) int {
		return cmp.Or(a.Updated.Compare(b.Updated), cmp.Compare(a.Number, b.Number))
	},
	"comments": func(a, b *issue) int { return cmp.Compare(len(a.Comments), len(b.Comments)) },
}

func listIssues(c *call) reply {
	q := c.r.URL.Query()
	state := cmp.Or(q.Get("state"), "open")
	since, no := c.since("Issue")
	by := issueOrders[cmp.Or(q.Get("sort"), "created")]
	switch {
	case no.status != 0:
		return no
	case by == nil:
		return invalid("Issue", "sort", "invalid")
	}
	labels := strings.FieldsFunc(q.Get("labels"), func(r rune) bool { return r == ',' })
	var all []*issue
	for _, i := range c.repo.Issues {
		lacks := slices.ContainsFunc(labels, func(l string) bool { return !i.has(l) })
		if i.there() && (state == "all" || state == i.state()) && !i.Updated.Before(since) && !lacks {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, by)
	if q.Get("direction") != "asc" {
		slices.Reverse(all)
	}
	return list(c, all, c.issue)
}

func createIssue(c *call) reply {
	title := c.field("title")
	if title == "" {
		return invalid("Issue", "title", "missing_field")
	}
	var labels []string
	if c.repo.mayTriage(c.user) {
		_ = json.Unmarshal(c.body["labels"], &labels)
	}
	return created(c.issue(c.newIssue(c.repo, c.user, title, c.field("body"), labels)))
}

func getIssue(c *call) reply { return ok(c.issue(c.on)) }

func patchIssue(c *call) reply {
	title, retitled := c.text("title")
	body, rewritten := c.text("body")
	state, moved := c.text("state")
	if (retitled || rewritten) && !c.repo.mayEdit(c.on, c.user) ||
		moved && c.on.Author != c.user && !c.repo.mayTriage(c.user) {
		return forbidden
	}
	if !retitled {
		title = c.on.Title
	}
	if !rewritten {
		body = c.on.Body
	}
	c.editIssue(c.repo, c.on, c.user, title, body)
	if moved {
		c.setState(c.repo, c.on, c.user, state)
	}
	return ok(c.issue(c.on))
}

// timeline lists the event types returned by GitHub's issue events API, which omits comments.
var timeline = []string{
	"renamed", "labeled", "unlabeled", "closed", "reopened", "merged", "ready_for_review", "convert_to_draft",
	"review_dismissed",
}

func listEvents(c *call) reply {
	var all []Event
	for _, e := range c.events {
		if e.Issue == key(c.repo, c.on) && slices.Contains(timeline, e.Event) {
			all = append(all, e)
		}
	}
	return list(c, all, func(e Event) object {
		o := c.to.event(c.repo, c.store, e)
		if l := c.repo.label(e.Detail); l != nil {
			o["label"] = object{"name": l.Name, "color": l.Color}
		}
		return o
	})
}

func listBlockers(c *call) reply  { return list(c, c.on.blockedBy, c.issue) }
func listSubIssues(c *call) reply { return list(c, c.repo.subIssues(c.on), c.issue) }

// since parses the query parameter "since". The reply is an error if the parameter is invalid.
func (c *call) since(resource string) (time.Time, reply) {
	text := c.r.URL.Query().Get("since")
	if text == "" {
		return time.Time{}, reply{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, invalid(resource, "since", "invalid")
	}
	return at, reply{}
}

// branchOf returns the branch in the path, or "" if the path names something else.
func (c *call) branchOf() string {
	branch, is := strings.CutPrefix(c.r.PathValue("ref"), "heads/")
	if !is {
		return ""
	}
	return branch
}

func getRef(c *call) reply {
	branch := c.branchOf()
	sha, there := c.tip(c.repo, branch)
	if !there {
		return notFound
	}
	api := c.to.api + "/repos/" + c.repo.fullName() + "/git/"
	return ok(object{
		"ref": "refs/heads/" + branch, "node_id": nodeID("Ref", c.repo.ID), "url": api + "refs/heads/" + branch,
		"object": object{"type": "commit", "sha": sha, "url": api + "commits/" + sha},
	})
}

func deleteRef(c *call) reply {
	branch := c.branchOf()
	if _, there := c.tip(c.repo, branch); !there {
		return unprocessable("Reference does not exist")
	}
	if branch == mainBranch {
		return unprocessable("Cannot delete the default branch")
	}
	if c.opts.DataDir != "" {
		if _, err := git(c.bare(c.repo.fullName()), nil, "update-ref", "-d", "refs/heads/"+branch); err != nil {
			return failed(http.StatusInternalServerError, err.Error())
		}
	}
	delete(c.repo.Branches, branch)
	c.followHeads(c.repo, c.user)
	return noContent
}
