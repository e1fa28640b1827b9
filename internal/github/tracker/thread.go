package tracker

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/prose"
)

// threadPages is the maximum number of comment pages to read from an issue. They hold 5,000 comments.
const threadPages = 50

// Comment is one comment on an issue. Mark is set only if the marker counts, that is, if we or a trusted author with
// write access wrote the comment.
type Comment struct {
	ID         int64
	node       string // id in GraphQL
	Author     string
	Body       string
	At, Edited time.Time // Edited equals At for a comment that was never edited
	person     bool
	Trusted    bool // the author's association is trusted, which does not imply a permission
	Thumbs     int  // thumbs-up reactions by all users
	URL        string
	Mark       *Marker
}

// Thread is an issue with its comments, ordered by id.
type Thread struct {
	api.Place
	Issue    Issue
	Self     string
	Comments []Comment
}

// Thread reads an issue and all its comments.
func (c *Reader) Thread(ctx context.Context, l gate.Lane, key string) (Thread, error) {
	t, err := c.ThreadComments(ctx, l, key)
	if err == nil {
		t.Issue, err = c.IssueAt(ctx, l, t.Place)
	}
	return t, err
}

// ThreadComments is like Thread, but does not read the issue itself.
func (c *Reader) ThreadComments(ctx context.Context, l gate.Lane, key string) (t Thread, err error) {
	if t.Place, err = api.ParseKey(key); err != nil {
		return Thread{}, err
	}
	if t.Self, err = c.conn.Self(ctx, l); err != nil {
		return Thread{}, err
	}
	t.Comments, err = c.listComments(ctx, l, t.Place, t.Self)
	return t, err
}

func (c *Reader) listComments(ctx context.Context, l gate.Lane, p api.Place, self string) ([]Comment, error) {
	var all []Comment
	opts := &gh.IssueListCommentsOptions{ListOptions: gh.ListOptions{PerPage: api.PageSize}}
	for range threadPages {
		raw, resp, err := c.conn.Lane(l).Issues.ListComments(ctx, p.Owner, p.Repo, p.Number, opts)
		if err != nil {
			return nil, c.missing(p, api.Normalize(err))
		}
		for _, r := range raw {
			all = append(all, c.ToComment(r, self))
		}
		if opts.Page = resp.NextPage; opts.Page == 0 {
			slices.SortFunc(all, func(a, b Comment) int { return cmp.Compare(a.ID, b.ID) })
			all = slices.CompactFunc(all, func(a, b Comment) bool { return a.ID == b.ID })
			return all, c.dropForged(ctx, p, self, all)
		}
	}
	return nil, api.Permanent("%s has more than %d comments", p.Key(), threadPages*api.PageSize)
}

// ToComment converts a comment from the API. self is the login of this account.
func (c *Reader) ToComment(raw *gh.IssueComment, self string) Comment {
	r := Comment{
		ID: raw.GetID(), node: raw.GetNodeID(), Author: raw.GetUser().GetLogin(), Body: raw.GetBody(),
		At: raw.GetCreatedAt().UTC(), Edited: raw.GetUpdatedAt().UTC(), person: IsPerson(raw.GetUser()),
		Trusted: c.trusts(self, raw.GetUser().GetLogin(), raw.GetAuthorAssociation()),
		Thumbs:  raw.GetReactions().GetPlusOne(),
		URL:     raw.GetHTMLURL(),
	}
	if r.Edited.Before(r.At) {
		r.Edited = r.At
	}
	if m, ok := ReadMarker(r.Body); ok && r.Trusted {
		r.Mark = &m
	}
	return r
}

// dropForged drops markers by authors who cannot write to the repository. An author association does not suffice,
// because a collaborator may have only read access. If the author is not our account, dropForged also drops all markers
// except claims and releases.
func (c *Reader) dropForged(ctx context.Context, p api.Place, self string, all []Comment) error {
	left := markersPerCall
	for i, r := range all {
		if r.Mark == nil || strings.EqualFold(r.Author, self) {
			continue
		}
		may := false
		if r.Mark.Kind == MarkClaim || r.Mark.Kind == MarkRelease {
			var err error
			if may, err = c.mayMark(ctx, p, r.Author, &left); err != nil {
				return err
			}
		}
		if !may {
			all[i].Mark = nil
		}
	}
	return nil
}

// OwnComments returns our own comments with the given marker, oldest first. It ignores Run, Ended and Since. It
// compares Attempt only if want.Attempt is set.
func (t Thread) OwnComments(want Marker) []Comment {
	var found []Comment
	for _, r := range t.Comments {
		if r.Mark != nil && strings.EqualFold(r.Author, t.Self) && r.Mark.Kind == want.Kind &&
			r.Mark.Fleet == want.Fleet &&
			r.Mark.Nonce == want.Nonce && r.Mark.Comment == want.Comment && r.Mark.Edit == want.Edit &&
			(want.Attempt == "" || r.Mark.Attempt == want.Attempt) {
			found = append(found, r)
		}
	}
	return found
}

// Questions returns the questions that our fleet has asked for the claim that holds the issue, oldest first.
func (t Thread) Questions(fleet string) []Comment {
	holder, ok := t.Holder()
	if !ok {
		return nil
	}
	return t.OwnComments(Marker{Kind: MarkBlocked, Fleet: fleet, Nonce: holder.Mark.Nonce})
}

// lastRelease returns the latest comment with a release marker, or a comment with id 0. If a claim has several release
// markers, only the first counts. Two directors can reclaim a claim at the same time, and the second release must not
// end a claim that began in between.
func (t Thread) lastRelease() (last Comment) {
	released := map[string]bool{}
	for _, r := range t.Comments {
		if r.Mark != nil && r.Mark.Kind == MarkRelease && !released[r.Mark.Nonce] {
			released[r.Mark.Nonce] = true
			last = r
		}
	}
	return last
}

// WasReleased reports whether a comment releases the claim with this nonce.
func (t Thread) WasReleased(nonce string) bool {
	return slices.ContainsFunc(t.Comments, func(r Comment) bool {
		return r.Mark != nil && r.Mark.Kind == MarkRelease && r.Mark.Nonce == nonce
	})
}

// ClaimedSince reports whether the issue was claimed after the comment with the given id.
func (t Thread) ClaimedSince(id int64) bool {
	return slices.ContainsFunc(t.Comments, func(r Comment) bool {
		return r.ID > id && r.Mark != nil &&
			r.Mark.Kind == MarkClaim
	})
}

// Holder returns the claim that holds the issue, which is the earliest active claim after the latest release.
func (t Thread) Holder() (Comment, bool) {
	after := t.lastRelease().ID
	for _, r := range t.Comments {
		if r.ID > after && r.Mark != nil && r.Mark.Kind == MarkClaim && r.Mark.Ended == "" {
			return r, true
		}
	}
	return Comment{}, false
}

// Adopt repairs the marker of a claim comment after a person edited it. nonce is the nonce with which this fleet won
// the claim. Adopt does nothing if a claim comment or a release already has this nonce. It replaces the nonce of the
// claim that holds the issue if our account wrote that comment for our fleet, and the edited nonce does not occur in
// another comment. If the issue does not have a holder, Adopt uses our unmarked comment that names the claim in its
// last line. Adopt changes only t. The next write to the comment restores its marker on GitHub.
func (t *Thread) Adopt(fleet, nonce string) {
	repaired := Marker{Kind: MarkClaim, Fleet: fleet, Nonce: nonce}
	if len(t.OwnComments(repaired)) > 0 || t.WasReleased(nonce) {
		return
	}
	holder, ok := t.Holder()
	i := slices.IndexFunc(t.Comments, func(r Comment) bool { return r.ID == holder.ID })
	if !ok {
		i = slices.IndexFunc(t.Comments, func(r Comment) bool { return t.unmarkedClaim(r, fleet) == nonce })
	}
	switch {
	case i < 0:
		return
	case ok && (!strings.EqualFold(holder.Author, t.Self) || holder.Mark.Fleet != fleet):
		return
	case ok && slices.ContainsFunc(t.Comments, func(r Comment) bool {
		return r.Mark != nil && r.ID != holder.ID &&
			r.Mark.Nonce == holder.Mark.Nonce
	}):
		return
	case ok:
		repaired.Run = holder.Mark.Run
	}
	t.Comments[i].Mark = &repaired
}

// claimShown matches the text of an active claim's comment, even if its marker was edited or deleted. The last line
// names the claim and the fleet. Older versions of Retake wrote "has work of" and "has its work".
var claimShown = regexp.MustCompile("(?s)^(?:<!-- retake:[^\n]*\n)?\\s*\\*\\*(?:In review\\*\\*|Retake\\*\\* (?:has " +
	"picked up|has work of|has lost contact|has its work|is|will|waits)).*" +
	"<sub>claim `([a-z0-9]{8})` · fleet `([A-Za-z0-9._-]{1,64})`</sub>\\s*$")

// unmarkedClaim returns the nonce in the last line of a comment by our account without a valid marker. It returns "" if
// the comment does not show a claim of our fleet.
func (t *Thread) unmarkedClaim(r Comment, fleet string) string {
	if r.Mark != nil || !strings.EqualFold(r.Author, t.Self) {
		return ""
	}
	if m := claimShown.FindStringSubmatch(r.Body); m != nil && m[2] == fleet {
		return m[1]
	}
	return ""
}

// Named returns the nonces of our fleet's claims in the comments after the given id, latest first. It finds them in our
// questions and in claim comments without a valid marker.
func (t *Thread) Named(fleet string, after int64) (nonces []string) {
	for _, r := range slices.Backward(t.Comments) {
		if r.ID <= after {
			break
		}
		if nonce := t.unmarkedClaim(r, fleet); nonce != "" {
			nonces = append(nonces, nonce)
		}
		if r.Mark != nil && r.Mark.Kind == MarkBlocked && r.Mark.Fleet == fleet && strings.EqualFold(r.Author, t.Self) {
			nonces = append(nonces, r.Mark.Nonce)
		}
	}
	return nonces
}

// Post creates a comment with the given marker and text, and returns its id. It returns 0 if t already has a comment by
// our account with this marker.
func (c *Writer) Post(ctx context.Context, l gate.Lane, t Thread, m Marker, text string) (created int64, err error) {
	if len(t.OwnComments(m)) > 0 {
		return 0, nil
	}
	body, err := WithMarker(m, text)
	if err != nil {
		return 0, err
	}
	made, _, err := c.conn.Lane(l).Issues.CreateComment(ctx, t.Owner, t.Repo, t.Number, &gh.IssueComment{Body: &body})
	return made.GetID(), api.Accepted(made.GetID(), "the comment for "+t.Key(), err)
}

// ReadBack checks that a new comment exists. It also returns nil if a person has already deleted the comment, because
// the director must not write it again.
func (c *Writer) ReadBack(ctx context.Context, l gate.Lane, t Thread, id int64) error {
	_, _, err := c.conn.Lane(l).Issues.GetComment(ctx, t.Owner, t.Repo, id)
	return api.UnlessGone(err)
}

// Edit changes our comment if its body differs from the marker and text. It returns the new body.
func (c *Writer) Edit(ctx context.Context, l gate.Lane, p api.Place, r Comment, m Marker, text string) (string, error) {
	body, err := WithMarker(m, text)
	if err != nil || SameText(body, r.Body) {
		return body, err
	}
	if _, err := c.Mutate(ctx, l, Thread{Place: p}, Bundle{Mark: m, Text: text, Edit: &r}); err != nil ||
		r.Body == body {
		return body, err
	}
	edited, _, err := c.conn.Lane(l).Issues.EditComment(ctx, p.Owner, p.Repo, r.ID, &gh.IssueComment{Body: &body})
	return body, api.Accepted(edited.GetID(), "the comment edit for "+p.Key(), err)
}

// Remove deletes our comment. It succeeds if the comment no longer exists.
func (c *Writer) Remove(ctx context.Context, l gate.Lane, t Thread, r Comment) error {
	_, err := c.conn.Lane(l).Issues.DeleteComment(ctx, t.Owner, t.Repo, r.ID)
	return api.UnlessGone(err)
}

// WithMarker prepends a marker to text and cuts the result to commentLimit.
func WithMarker(m Marker, text string) (string, error) {
	head, err := m.Line()
	if err != nil {
		return "", err
	}
	return prose.Clip(head+"\n"+strings.TrimSpace(text), commentLimit), nil
}

// SameText reports whether two texts are equal except for line endings and surrounding white space, which GitHub may
// change.
func SameText(a, b string) bool {
	norm := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }
	return norm(a) == norm(b)
}

// ByPerson reports whether a person wrote a comment. A comment that begins like a marker counts as a director's
// comment, even if the version of the marker is unknown.
func (r Comment) ByPerson() bool { return r.person && !beginsLikeMarker(r.Body) }

// IsOwnClaim reports whether r, a comment with a claim marker, was written by our account for the given fleet and
// nonce.
func (t Thread) IsOwnClaim(fleet string, r Comment, nonce string) bool {
	return strings.EqualFold(r.Author, t.Self) && r.Mark.Fleet == fleet && r.Mark.Nonce == nonce
}

// commentLimit is the maximum length of our comments, in characters. GitHub refuses more than 65,536.
const commentLimit = 60_000

// LatestOf returns the last element of comments, or a zero Comment if the list is empty.
func LatestOf(comments []Comment) Comment {
	if len(comments) == 0 {
		return Comment{}
	}
	return comments[len(comments)-1]
}
