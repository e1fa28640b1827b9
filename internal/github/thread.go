package github

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"
)

// threadPages bounds the comments of one issue that are read: 5,000.
const threadPages = 50

// remark is a comment. mark is set only if its author is trusted.
type remark struct {
	id         int64
	author     string
	body       string
	url        string
	at, edited time.Time // edited is at for a comment that never was
	person     bool
	trusted    bool // by the author's association; what a person may do says permission
	thumbs     int  // thumbs-up of anybody
	mark       *marker
}

// thread is an issue with its comments, in the order of their ids.
type thread struct {
	place
	issue   Issue
	self    string
	remarks []remark
}

// thread reads an issue and all its comments.
func (c *Client) thread(ctx context.Context, l lane, key string) (thread, error) {
	p, err := parseKey(key)
	if err != nil {
		return thread{}, err
	}
	t := thread{place: p}
	if t.self, err = c.self(ctx, l); err != nil {
		return thread{}, err
	}
	if t.issue, err = c.issue(ctx, l, p); err != nil {
		return thread{}, err
	}
	t.remarks, err = c.remarks(ctx, l, p, t.self, time.Time{})
	return t, err
}

// remarks reads the comments that were written or edited since a time, all for zero.
func (c *Client) remarks(ctx context.Context, l lane, p place, self string, since time.Time) ([]remark, error) {
	var all []remark
	opts := &gh.IssueListCommentsOptions{ListOptions: gh.ListOptions{PerPage: pageSize}}
	if since = since.UTC().Truncate(time.Second); !since.IsZero() {
		opts.Since = &since
	}
	for range threadPages {
		raw, resp, err := c.lanes[l].Issues.ListComments(ctx, p.owner, p.repo, p.number, opts)
		if err != nil {
			return nil, normal(err)
		}
		for _, r := range raw {
			all = append(all, c.toRemark(r, self))
		}
		if opts.Page = resp.NextPage; opts.Page == 0 {
			slices.SortFunc(all, func(a, b remark) int { return cmp.Compare(a.id, b.id) })
			return slices.CompactFunc(all, func(a, b remark) bool { return a.id == b.id }), nil
		}
	}
	return nil, permanent("%s has more than %d comments", p.key(), threadPages*pageSize)
}

func (c *Client) toRemark(raw *gh.IssueComment, self string) remark {
	r := remark{
		id: raw.GetID(), author: raw.GetUser().GetLogin(), body: raw.GetBody(), url: raw.GetHTMLURL(),
		at: raw.GetCreatedAt().UTC(), edited: raw.GetUpdatedAt().UTC(), person: isPerson(raw.GetUser()),
		trusted: c.trusts(self, raw.GetUser().GetLogin(), raw.GetAuthorAssociation()), thumbs: raw.GetReactions().GetPlusOne(),
	}
	if r.edited.Before(r.at) {
		r.edited = r.at
	}
	if m, ok := readMarker(r.body); ok && r.trusted {
		r.mark = &m
	}
	return r
}

// ours are our own comments with the given marker, oldest first. The fields of want that are set must be equal.
func (t thread) ours(want marker) []remark {
	var found []remark
	for _, r := range t.remarks {
		if r.mark != nil && strings.EqualFold(r.author, t.self) && r.mark.kind == want.kind && r.mark.Fleet == want.Fleet &&
			r.mark.Nonce == want.Nonce && (want.Attempt == "" || r.mark.Attempt == want.Attempt) {
			found = append(found, r)
		}
	}
	return found
}

// lastRelease is the latest release marker of anybody whom we trust, id 0 if there is none. Of several for one claim the
// first counts: two directors may reclaim at once, and the second must not end the claim that came between.
func (t thread) lastRelease() (last remark) {
	released := map[string]bool{}
	for _, r := range t.remarks {
		if r.mark != nil && r.mark.kind == markRelease && !released[r.mark.Nonce] {
			released[r.mark.Nonce] = true
			last = r
		}
	}
	return last
}

func (t thread) wasReleased(nonce string) bool {
	return slices.ContainsFunc(t.remarks, func(r remark) bool {
		return r.mark != nil && r.mark.kind == markRelease && r.mark.Nonce == nonce
	})
}

// holder is the claim that holds the issue: the lowest id of those after the latest release that have not ended.
func (t thread) holder() (remark, bool) {
	after := t.lastRelease().id
	for _, r := range t.remarks {
		if r.id > after && r.mark != nil && r.mark.kind == markClaim && r.mark.Ended == "" {
			return r, true
		}
	}
	return remark{}, false
}

// post creates our comment with the given marker and text below it, unless it is there; created tells.
func (c *Client) post(ctx context.Context, l lane, t thread, m marker, text string) (created bool, err error) {
	if len(t.ours(m)) > 0 {
		return false, nil
	}
	body, err := withMarker(m, text)
	if err != nil {
		return false, err
	}
	_, _, err = c.lanes[l].Issues.CreateComment(ctx, t.owner, t.repo, t.number, &gh.IssueComment{Body: &body})
	return err == nil, normal(err)
}

// edit changes the body of our comment, unless it is what it should be already.
func (c *Client) edit(ctx context.Context, l lane, t thread, r remark, m marker, text string) (string, error) {
	body, err := withMarker(m, text)
	if err != nil || sameText(body, r.body) {
		return body, err
	}
	_, _, err = c.lanes[l].Issues.EditComment(ctx, t.owner, t.repo, r.id, &gh.IssueComment{Body: &body})
	return body, normal(err)
}

// remove deletes our comment; one that is gone already is no error.
func (c *Client) remove(ctx context.Context, l lane, t thread, r remark) error {
	_, err := c.lanes[l].Issues.DeleteComment(ctx, t.owner, t.repo, r.id)
	if err = normal(err); isGone(err) {
		return nil
	}
	return err
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
