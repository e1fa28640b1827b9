package githubtest

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// edit is the current or an earlier text of an issue's body. As on GitHub, the first change also records the original
// text, and a deleted text leaves an empty entry in the history.
type edit struct {
	At      time.Time `json:"at"`
	By      *user     `json:"by"`
	Text    string    `json:"text"`
	Deleted time.Time `json:"deleted,omitzero"`
}

// editIssue changes the title and the body of an issue. s.mu is held.
func (s *store) editIssue(r *repo, i *issue, u *user, title, body string) {
	i.Updated = s.now()
	if title != i.Title {
		s.event(r, i, u, "renamed", "")
		e := &s.events[len(s.events)-1]
		e.From, e.To = i.Title, title
		i.Title = title
	}
	if body == i.Body {
		return
	}
	if len(i.Edits) == 0 {
		i.Edits = append(i.Edits, &edit{At: i.Created, By: i.Author, Text: i.Body})
	}
	i.Body = body
	i.Edits = append(i.Edits, &edit{At: s.now(), By: u, Text: body})
	s.note(r, i, u, "edited", "")
}

// mayEdit reports whether the user wrote the issue or has write access.
func (r *repo) mayEdit(i *issue, u *user) bool { return i.Author == u || r.mayWrite(u) }

// EditIssue changes the title and the body of an issue as actor.
func (s *Server) EditIssue(issueKey, actor, title, body string) {
	s.with(issueKey, func(r *repo, i *issue) { s.editIssue(r, i, s.user(actor), title, body) })
}

// DeleteRevision deletes revision n from the history of an issue's body. On GitHub, the author of the revision and
// people with write access can do this.
func (s *Server) DeleteRevision(issueKey string, n int) {
	s.with(issueKey, func(_ *repo, i *issue) { i.Edits[n].Deleted = s.now() })
}

// connection is a GraphQL list. A request gets the first elements after a cursor, or the last elements before it.
type connection []object

func (all connection) page(args map[string]any) object {
	from, to := 0, len(all)
	number := func(name string) (int, bool) {
		switch v := args[name].(type) {
		case int64:
			return int(v), true
		case string:
			n, err := strconv.Atoi(v)
			return n, err == nil
		}
		return 0, false
	}
	if n, ok := number("after"); ok {
		from = min(max(n, 0), len(all))
	}
	if n, ok := number("before"); ok {
		to = max(min(n-1, len(all)), from)
	}
	if n, ok := number("first"); ok {
		to = min(to, from+min(n, 100))
	}
	if n, ok := number("last"); ok {
		from = max(from, to-min(n, 100))
	}
	info := object{"hasNextPage": to < len(all), "hasPreviousPage": from > 0, "startCursor": nil, "endCursor": nil}
	if from < to {
		info["startCursor"], info["endCursor"] = itoa(from+1), itoa(to)
	}
	return object{"nodes": slices.Clone([]object(all[from:to])), "totalCount": len(all), "pageInfo": info}
}

// graphQLActor renders an account for GraphQL, which omits the [bot] suffix that REST adds to an App's login.
func graphQLActor(u *user) object {
	kind := "User"
	if u.bot {
		kind = "Bot"
	}
	return object{"__typename": kind, "id": nodeID(kind, u.id), "login": strings.TrimSuffix(u.login, "[bot]")}
}

// graphQLIssue renders an issue with the history of its labels and title, oldest first, and of its body, latest first.
// s.mu is held.
func (c *call) graphQLIssue(r *repo, i *issue) object {
	edits, changes := connection{}, connection{}
	var last any
	for n, e := range slices.Backward(i.Edits) {
		o := object{
			"id": nodeID("UserContentEdit", i.ID*1000+int64(n)), "createdAt": stamp(e.At), "editedAt": stamp(e.At),
			"updatedAt": stamp(e.At),
			"editor":    graphQLActor(e.By), "diff": e.Text, "deletedAt": stamp(e.Deleted), "deletedBy": nil,
		}
		if !e.Deleted.IsZero() {
			o["diff"], o["deletedBy"] = nil, graphQLActor(e.By)
		}
		edits = append(edits, o)
	}
	if len(i.Edits) > 0 {
		last = stamp(i.Edits[len(i.Edits)-1].At)
	}
	kinds := map[string]string{"labeled": "LabeledEvent", "unlabeled": "UnlabeledEvent", "renamed": "RenamedTitleEvent"}
	for _, e := range c.events {
		kind := kinds[e.Event]
		if e.Issue != key(r, i) || kind == "" {
			continue
		}
		o := object{
			"__typename": kind, "id": nodeID(kind, e.ID), "createdAt": stamp(e.At),
			"actor": graphQLActor(c.store.user(e.Actor)),
		}
		if e.Event == "renamed" {
			maps.Copy(o, object{"previousTitle": e.From, "currentTitle": e.To})
		} else {
			l := object{"id": nodeID("Label", 0), "name": e.Detail}
			if known := r.label(e.Detail); known != nil {
				l["id"] = nodeID("Label", known.ID)
			}
			o["label"] = l
		}
		changes = append(changes, o)
	}
	return object{
		"__typename": "Issue", "id": nodeID("Issue", i.ID), "author": graphQLActor(i.Author), "title": i.Title,
		"body": i.Body, "createdAt": stamp(i.Created),
		"includesCreatedEdit": len(i.Edits) > 0, "lastEditedAt": last, "userContentEdits": edits,
		"timelineItems": changes,
	}
}
