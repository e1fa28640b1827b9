package githubtest

import (
	"slices"
	"time"
)

// reaction is the reaction of one user to a comment.
type reaction struct {
	ID      int64     `json:"id"`
	User    *user     `json:"user"`
	Content string    `json:"content"`
	Created time.Time `json:"created"`
}

// reactionKinds lists the contents of reactions, in GitHub's order.
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

func listReactions(c *call) reply {
	want := c.r.URL.Query().Get("content")
	all := slices.DeleteFunc(slices.Clone(c.said.Reactions),
		func(x *reaction) bool { return want != "" && x.Content != want })
	return list(c, all, c.to.reaction)
}

// createReaction creates a reaction. If the user has already reacted in the same way, it returns the existing reaction
// with status 200 instead of 201. It does not change updated_at of the comment and the issue.
func createReaction(c *call) reply {
	m, content := c.said, c.field("content")
	if !slices.Contains(reactionKinds, content) {
		return invalid("Reaction", "content", "invalid")
	}
	for _, x := range m.Reactions {
		if x.User == c.user && x.Content == content {
			return ok(c.to.reaction(x))
		}
	}
	x := &reaction{c.id(), c.user, content, c.now()}
	m.Reactions = append(m.Reactions, x)
	c.note(c.repo, c.on, c.user, "reacted", content+" "+itoa(m.ID))
	return created(c.to.reaction(x))
}

func deleteReaction(c *call) reply {
	m := c.said
	at := slices.IndexFunc(m.Reactions, func(x *reaction) bool { return itoa(x.ID) == c.r.PathValue("reaction") })
	if at < 0 {
		return notFound
	}
	if m.Reactions[at].User != c.user {
		return forbidden
	}
	c.note(c.repo, c.on, c.user, "unreacted", m.Reactions[at].Content+" "+itoa(m.ID))
	m.Reactions = slices.Delete(m.Reactions, at, at+1)
	return noContent
}
