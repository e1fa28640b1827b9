package github

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/gate"
)

// threadPages bounds the comments of one issue that are read: 5,000.
const threadPages = 50

// comment is a comment. mark is set only if the marker counts: our own, or of a trusted author with write access.
type comment struct {
	id         int64
	node       string // id in GraphQL
	author     string
	body       string
	at, edited time.Time // edited is at for a comment that never was
	person     bool
	trusted    bool // by the author's association, which is not a permission
	thumbs     int  // thumbs-up of anybody
	url        string
	mark       *marker
}

// thread is an issue with its comments, in the order of their ids.
type thread struct {
	place
	issue    Issue
	self     string
	comments []comment
}

// thread reads an issue and all its comments.
func (c *Client) thread(ctx context.Context, l gate.Lane, key string) (thread, error) {
	t, err := c.threadComments(ctx, l, key)
	if err == nil {
		t.issue, err = c.issue(ctx, l, t.place)
	}
	return t, err
}

// comments reads the comments of an issue, without the issue.
func (c *Client) threadComments(ctx context.Context, l gate.Lane, key string) (t thread, err error) {
	if t.place, err = parseKey(key); err != nil {
		return thread{}, err
	}
	if t.self, err = c.self(ctx, l); err != nil {
		return thread{}, err
	}
	t.comments, err = c.listComments(ctx, l, t.place, t.self)
	return t, err
}

func (c *Client) listComments(ctx context.Context, l gate.Lane, p place, self string) ([]comment, error) {
	var all []comment
	opts := &gh.IssueListCommentsOptions{ListOptions: gh.ListOptions{PerPage: pageSize}}
	for range threadPages {
		raw, resp, err := c.lanes[l].Issues.ListComments(ctx, p.owner, p.repo, p.number, opts)
		if err != nil {
			return nil, c.missing(p, normalize(err))
		}
		for _, r := range raw {
			all = append(all, c.toComment(r, self))
		}
		if opts.Page = resp.NextPage; opts.Page == 0 {
			slices.SortFunc(all, func(a, b comment) int { return cmp.Compare(a.id, b.id) })
			all = slices.CompactFunc(all, func(a, b comment) bool { return a.id == b.id })
			return all, c.dropForged(ctx, p, self, all)
		}
	}
	return nil, permanent("%s has more than %d comments", p.key(), threadPages*pageSize)
}

func (c *Client) toComment(raw *gh.IssueComment, self string) comment {
	r := comment{
		id: raw.GetID(), node: raw.GetNodeID(), author: raw.GetUser().GetLogin(), body: raw.GetBody(),
		at: raw.GetCreatedAt().UTC(), edited: raw.GetUpdatedAt().UTC(), person: isPerson(raw.GetUser()),
		trusted: c.trusts(self, raw.GetUser().GetLogin(), raw.GetAuthorAssociation()),
		thumbs:  raw.GetReactions().GetPlusOne(),
		url:     raw.GetHTMLURL(),
	}
	if r.edited.Before(r.at) {
		r.edited = r.at
	}
	if m, ok := readMarker(r.body); ok && r.trusted {
		r.mark = &m
	}
	return r
}

// dropForged leaves the markers of others only to people who could write to the repository anyway: an author
// association is no permission, a collaborator may be a reader. Of others only claims and releases mean
// anything to us.
func (c *Client) dropForged(ctx context.Context, p place, self string, all []comment) error {
	left := markersPerCall
	for i, r := range all {
		if r.mark == nil || strings.EqualFold(r.author, self) {
			continue
		}
		may := false
		if r.mark.kind == markClaim || r.mark.kind == markRelease {
			var err error
			if may, err = c.mayMark(ctx, p, r.author, &left); err != nil {
				return err
			}
		}
		if !may {
			all[i].mark = nil
		}
	}
	return nil
}

// ownComments are our own comments with the given marker, oldest first. The fields of want that are set must be equal.
func (t thread) ownComments(want marker) []comment {
	var found []comment
	for _, r := range t.comments {
		if r.mark != nil && strings.EqualFold(r.author, t.self) && r.mark.kind == want.kind &&
			r.mark.Fleet == want.Fleet &&
			r.mark.Nonce == want.Nonce && r.mark.Comment == want.Comment && r.mark.Edit == want.Edit &&
			(want.Attempt == "" || r.mark.Attempt == want.Attempt) {
			found = append(found, r)
		}
	}
	return found
}

// questions are our fleet's questions of the claim that holds the issue, oldest first.
func (t thread) questions(fleet string) []comment {
	holder, ok := t.holder()
	if !ok {
		return nil
	}
	return t.ownComments(marker{kind: markBlocked, Fleet: fleet, Nonce: holder.mark.Nonce})
}

// lastRelease is the latest release marker of anybody whom we trust, id 0 if there is none. Of several for one
// claim the first counts: two directors may reclaim at once, and the second must not end the claim that came
// between.
func (t thread) lastRelease() (last comment) {
	released := map[string]bool{}
	for _, r := range t.comments {
		if r.mark != nil && r.mark.kind == markRelease && !released[r.mark.Nonce] {
			released[r.mark.Nonce] = true
			last = r
		}
	}
	return last
}

func (t thread) wasReleased(nonce string) bool {
	return slices.ContainsFunc(t.comments, func(r comment) bool {
		return r.mark != nil && r.mark.kind == markRelease && r.mark.Nonce == nonce
	})
}

// claimedSince reports whether anybody has claimed the issue after the comment with the given id.
func (t thread) claimedSince(id int64) bool {
	return slices.ContainsFunc(t.comments, func(r comment) bool {
		return r.id > id && r.mark != nil &&
			r.mark.kind == markClaim
	})
}

// holder is the claim that holds the issue: the lowest id of those after the latest release that have not ended.
func (t thread) holder() (comment, bool) {
	after := t.lastRelease().id
	for _, r := range t.comments {
		if r.id > after && r.mark != nil && r.mark.kind == markClaim && r.mark.Ended == "" {
			return r, true
		}
	}
	return comment{}, false
}

// adopt makes the claim that holds the issue the one with this nonce, which was won before, if somebody has
// edited the nonce in its marker: our account wrote it for our fleet, there is no other comment of our claim,
// nor its release, and no other comment of the claim that it seems to be. As long as the issue carries the
// claimed label no other director claims it. If nobody holds the issue, it is our comment that has lost its
// marker and whose foot names the claim. What is written into the comment next has the right marker again.
func (t *thread) adopt(fleet, nonce string) {
	repaired := marker{kind: markClaim, Fleet: fleet, Nonce: nonce}
	if len(t.ownComments(repaired)) > 0 || t.wasReleased(nonce) {
		return
	}
	holder, ok := t.holder()
	i := slices.IndexFunc(t.comments, func(r comment) bool { return r.id == holder.id })
	if !ok {
		i = slices.IndexFunc(t.comments, func(r comment) bool { return t.unmarkedClaim(r, fleet) == nonce })
	}
	switch {
	case i < 0:
		return
	case ok && (!strings.EqualFold(holder.author, t.self) || holder.mark.Fleet != fleet):
		return
	case ok && slices.ContainsFunc(t.comments, func(r comment) bool {
		return r.mark != nil && r.id != holder.id &&
			r.mark.Nonce == holder.mark.Nonce
	}):
		return
	case ok:
		repaired.Run = holder.mark.Run
	}
	t.comments[i].mark = &repaired
}

// claimShown is the text of a claim comment whose claim goes on, with what may be left of its marker; its foot
// names claim and fleet.
var claimShown = regexp.MustCompile("(?s)^(?:<!-- retake:[^\n]*\n)?\\s*\\*\\*(?:In review\\*\\*|Retake\\*\\* (?:has " +
	"picked up|has work of|has lost contact|has its work|is|will try|waits)).*" +
	"<sub>claim `([a-z0-9]{8})` · fleet `([A-Za-z0-9._-]{1,64})`</sub>\\s*$")

// unmarkedClaim is the nonce of the claim that a comment of our account shows which has no marker any more;
// empty: it shows none of our fleet.
func (t *thread) unmarkedClaim(r comment, fleet string) string {
	if r.mark != nil || !strings.EqualFold(r.author, t.self) {
		return ""
	}
	if m := claimShown.FindStringSubmatch(r.body); m != nil && m[2] == fleet {
		return m[1]
	}
	return ""
}

// named are the claims that our questions, and comments that have lost their markers, name after the comment
// with the given id, the latest first.
func (t *thread) named(fleet string, after int64) (nonces []string) {
	for _, r := range slices.Backward(t.comments) {
		if r.id <= after {
			break
		}
		if nonce := t.unmarkedClaim(r, fleet); nonce != "" {
			nonces = append(nonces, nonce)
		}
		if r.mark != nil && r.mark.kind == markBlocked && r.mark.Fleet == fleet && strings.EqualFold(r.author, t.self) {
			nonces = append(nonces, r.mark.Nonce)
		}
	}
	return nonces
}

// post creates our comment with the given marker and text below it, unless it is there: then created is 0, else its id.
func (c *Client) post(ctx context.Context, l gate.Lane, t thread, m marker, text string) (created int64, err error) {
	if len(t.ownComments(m)) > 0 {
		return 0, nil
	}
	body, err := withMarker(m, text)
	if err != nil {
		return 0, err
	}
	made, _, err := c.lanes[l].Issues.CreateComment(ctx, t.owner, t.repo, t.number, &gh.IssueComment{Body: &body})
	return made.GetID(), accepted(made.GetID(), "the comment for "+t.key(), err)
}

// accepted is the error of a write: also if the answer says that all is well and has no number of what was
// written. Something between GitHub and us may have passed nothing on. The repetition finds out.
func accepted[N int | int64](number N, what string, err error) error {
	if err == nil && number == 0 {
		return transient(what+" was accepted, but the answer does not show it", nil)
	}
	return normalize(err)
}

// readBack looks whether a comment that was made is there. One that is gone again was deleted by a person, and
// is not made once more.
func (c *Client) readBack(ctx context.Context, l gate.Lane, t thread, id int64) error {
	_, _, err := c.lanes[l].Issues.GetComment(ctx, t.owner, t.repo, id)
	return unlessGone(err)
}

// edit changes the body of our comment, unless it is what it should be already.
func (c *Client) edit(ctx context.Context, l gate.Lane, p place, r comment, m marker, text string) (string, error) {
	body, err := withMarker(m, text)
	if err != nil || sameText(body, r.body) {
		return body, err
	}
	edited, _, err := c.lanes[l].Issues.EditComment(ctx, p.owner, p.repo, r.id, &gh.IssueComment{Body: &body})
	return body, accepted(edited.GetID(), "the comment's new text for "+p.key(), err)
}

// remove deletes our comment; one that is gone already is no error.
func (c *Client) remove(ctx context.Context, l gate.Lane, t thread, r comment) error {
	_, err := c.lanes[l].Issues.DeleteComment(ctx, t.owner, t.repo, r.id)
	return unlessGone(err)
}

func withMarker(m marker, text string) (string, error) {
	head, err := m.line()
	if err != nil {
		return "", err
	}
	return clip(head+"\n"+strings.TrimSpace(text), commentLimit), nil
}

func sameText(a, b string) bool {
	norm := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }
	return norm(a) == norm(b)
}
