package githubtest

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// edit is one text that the body of an issue has had. As on GitHub the first one is kept with the first change,
// and a text that was deleted from the history leaves its place there.
type edit struct {
	at      time.Time
	by      *user
	text    string
	deleted time.Time
}

// savedEdit is an edit in the state file.
type savedEdit struct {
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Text    string    `json:"text"`
	Deleted time.Time `json:"deleted,omitzero"`
}

// editIssue gives an issue another title and body. s.mu is held.
func (s *Server) editIssue(r *repo, i *issue, u *user, title, body string) {
	i.updated = s.now()
	if title != i.title {
		s.event(r, i, u, "renamed", "")
		e := &s.events[len(s.events)-1]
		e.From, e.To = i.title, title
		i.title = title
	}
	if body == i.body {
		return
	}
	if len(i.edits) == 0 {
		i.edits = append(i.edits, &edit{at: i.created, by: i.author, text: i.body})
	}
	i.body = body
	i.edits = append(i.edits, &edit{at: s.now(), by: u, text: body})
	s.note(r, i, u, "edited", "")
}

// mayEdit: whoever wrote it, and people with write access.
func (r *repo) mayEdit(i *issue, u *user) bool { return i.author == u || r.mayWrite(u) }

// EditIssue gives an issue another title and body as actor.
func (s *Server) EditIssue(issueKey, actor, title, body string) {
	s.with(issueKey, func(r *repo, i *issue) { s.editIssue(r, i, s.user(actor), title, body) })
}

// DeleteRevision takes a text of an issue out of its history, as its author and people with write access may:
// the n-th, from 0.
func (s *Server) DeleteRevision(issueKey string, n int) {
	s.with(issueKey, func(_ *repo, i *issue) { i.edits[n].deleted = s.now() })
}

// connection is a list of GraphQL, which a request asks for in parts: the first after, or the last before a place.
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

// graphQLActor is how GraphQL shows an account: an App's without the ending that REST gives it.
func graphQLActor(u *user) object {
	kind := "User"
	if u.bot {
		kind = "Bot"
	}
	return object{"__typename": kind, "id": nodeID(kind, u.id), "login": strings.TrimSuffix(u.login, "[bot]")}
}

// graphQLIssue is an issue with its labels' history and all texts that it has had, the latest first. s.mu is held.
func (c *call) graphQLIssue(r *repo, i *issue) object {
	edits, changes := connection{}, connection{}
	var last any
	for n, e := range slices.Backward(i.edits) {
		o := object{
			"id": nodeID("UserContentEdit", i.id*1000+int64(n)), "createdAt": stamp(e.at), "editedAt": stamp(e.at),
			"updatedAt": stamp(e.at),
			"editor":    graphQLActor(e.by), "diff": e.text, "deletedAt": stamp(e.deleted), "deletedBy": nil,
		}
		if !e.deleted.IsZero() {
			o["diff"], o["deletedBy"] = nil, graphQLActor(e.by)
		}
		edits = append(edits, o)
	}
	if len(i.edits) > 0 {
		last = stamp(i.edits[len(i.edits)-1].at)
	}
	kinds := map[string]string{"labeled": "LabeledEvent", "unlabeled": "UnlabeledEvent", "renamed": "RenamedTitleEvent"}
	for _, e := range c.events {
		kind := kinds[e.Event]
		if e.Issue != key(r, i) || kind == "" {
			continue
		}
		o := object{
			"__typename": kind, "id": nodeID(kind, e.ID), "createdAt": stamp(e.At),
			"actor": graphQLActor(c.Server.user(e.Actor)),
		}
		if e.Event == "renamed" {
			maps.Copy(o, object{"previousTitle": e.From, "currentTitle": e.To})
		} else {
			l := object{"id": nodeID("Label", 0), "name": e.Detail}
			if known := r.label(e.Detail); known != nil {
				l["id"] = nodeID("Label", known.id)
			}
			o["label"] = l
		}
		changes = append(changes, o)
	}
	return object{
		"__typename": "Issue", "id": nodeID("Issue", i.id), "author": graphQLActor(i.author), "title": i.title,
		"body": i.body, "createdAt": stamp(i.created),
		"includesCreatedEdit": len(i.edits) > 0, "lastEditedAt": last, "userContentEdits": edits,
		"timelineItems": changes,
	}
}
