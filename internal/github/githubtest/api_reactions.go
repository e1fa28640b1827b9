package githubtest

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// reaction of one user to a comment.
type reaction struct {
	ID      int64     `json:"id"`
	User    *user     `json:"user"`
	Content string    `json:"content"`
	Created time.Time `json:"created"`
}

// reactionKinds are GitHub's, in the order in which it shows them.
var reactionKinds = []string{"+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"}

// rollup counts reactions.
func rollup(url string, all []*reaction) object {
	o := object{"url": url + "/reactions", "total_count": len(all)}
	for _, k := range reactionKinds {
		n := 0
		for _, x := range all {
			if x.Content == k {
				n++
			}
		}
		o[k] = n
	}
	return o
}

func (l links) reaction(x *reaction) object {
	return object{
		"id": x.ID, "node_id": nodeID("Reaction", x.ID), "user": l.user(x.User), "content": x.Content,
		"created_at": stamp(x.Created),
	}
}

func (c *call) listReactions() {
	_, m := c.findComment()
	if m == nil {
		return
	}
	all := m.Reactions
	if want := c.r.URL.Query().Get("content"); want != "" {
		all = slices.DeleteFunc(slices.Clone(all), func(x *reaction) bool { return x.Content != want })
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
	if at := slices.IndexFunc(m.Reactions, func(x *reaction) bool {
		return x.User == c.user &&
			x.Content == content
	}); at >= 0 {
		writeJSON(c.w, http.StatusOK, c.to.reaction(m.Reactions[at]))
		return
	}
	x := &reaction{c.id(), c.user, content, c.now()}
	m.Reactions = append(m.Reactions, x)
	c.note(c.repo, i, c.user, "reacted", content+" "+itoa(m.ID))
	writeJSON(c.w, http.StatusCreated, c.to.reaction(x))
}

func (c *call) deleteReaction() {
	i, m := c.findComment()
	if m == nil {
		return
	}
	id, _ := strconv.ParseInt(c.r.PathValue("reaction"), 10, 64)
	at := slices.IndexFunc(m.Reactions, func(x *reaction) bool { return x.ID == id })
	if at < 0 {
		c.fail(http.StatusNotFound, "Not Found")
		return
	}
	if m.Reactions[at].User != c.user {
		c.fail(http.StatusForbidden, "Must have admin rights to Repository.")
		return
	}
	c.note(c.repo, i, c.user, "unreacted", m.Reactions[at].Content+" "+itoa(m.ID))
	m.Reactions = slices.Delete(m.Reactions, at, at+1)
	c.w.WriteHeader(http.StatusNoContent)
}
