package githubtest

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// reaction of one user to a comment.
type reaction struct {
	id      int64
	user    *user
	content string
	created time.Time
}

// reactionKinds are GitHub's, in the order in which it shows them.
var reactionKinds = []string{"+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"}

// rollup counts reactions.
func rollup(url string, all []*reaction) object {
	o := object{"url": url + "/reactions", "total_count": len(all)}
	for _, k := range reactionKinds {
		n := 0
		for _, x := range all {
			if x.content == k {
				n++
			}
		}
		o[k] = n
	}
	return o
}

func (l links) reaction(x *reaction) object {
	return object{
		"id": x.id, "node_id": nodeID("Reaction", x.id), "user": l.user(x.user), "content": x.content,
		"created_at": stamp(x.created),
	}
}

func (c *call) listReactions() {
	_, m := c.findComment()
	if m == nil {
		return
	}
	all := m.reactions
	if want := c.r.URL.Query().Get("content"); want != "" {
		all = slices.DeleteFunc(slices.Clone(all), func(x *reaction) bool { return x.content != want })
	}
	writeJSON(c.w, http.StatusOK, objects(page(c, all), c.to.reaction))
}

// createReaction makes a reaction once: the same again is answered with the first, 200 instead of 201. It does
// not touch the times of comment and issue.
func (c *call) createReaction() {
	i, m := c.findComment()
	if m == nil {
		return
	}
	content, _ := c.text("content")
	if !slices.Contains(reactionKinds, content) {
		c.invalid("Reaction", "content", "invalid")
		return
	}
	if at := slices.IndexFunc(m.reactions, func(x *reaction) bool {
		return x.user == c.user &&
			x.content == content
	}); at >= 0 {
		writeJSON(c.w, http.StatusOK, c.to.reaction(m.reactions[at]))
		return
	}
	x := &reaction{c.id(), c.user, content, c.now()}
	m.reactions = append(m.reactions, x)
	c.note(c.repo, i, c.user, "reacted", content+" "+itoa(m.id))
	writeJSON(c.w, http.StatusCreated, c.to.reaction(x))
}

func (c *call) deleteReaction() {
	i, m := c.findComment()
	if m == nil {
		return
	}
	id, _ := strconv.ParseInt(c.r.PathValue("reaction"), 10, 64)
	at := slices.IndexFunc(m.reactions, func(x *reaction) bool { return x.id == id })
	if at < 0 {
		c.fail(http.StatusNotFound, "Not Found")
		return
	}
	if m.reactions[at].user != c.user {
		c.fail(http.StatusForbidden, "Must have admin rights to Repository.")
		return
	}
	c.note(c.repo, i, c.user, "unreacted", m.reactions[at].content+" "+itoa(m.id))
	m.reactions = slices.Delete(m.reactions, at, at+1)
	c.w.WriteHeader(http.StatusNoContent)
}
