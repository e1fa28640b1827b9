package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	gh "github.com/google/go-github/v60/github"
	"go.uber.org/zap"
)

// labelPages bounds the labels of a repository that are read: 2,000.
const labelPages = 20

// labelSpec is a label that we create.
type labelSpec struct{ name, color, description string }

func (l Labels) specs() []labelSpec {
	return []labelSpec{
		{l.Task, "0e8a16", "Work for Retake: add this label to have an issue worked on"},
		{l.Claimed, "fbca04", "Retake is working on this"},
		{l.Blocked, "d93f0b", "Retake has stopped and needs a human: see its question"},
		{l.Review, "1d76db", "Retake has finished: ready for review"},
	}
}

// EnsureLabels creates the labels that a repository lacks and reads them back. With writes off it only reads, and returns
// ErrWritesDisabled if one is missing.
func (c *Client) EnsureLabels(ctx context.Context, repo string) error {
	p, err := parseRepo(repo)
	if err != nil {
		return err
	}
	missing, err := c.missingLabels(ctx, p)
	if err != nil || len(missing) == 0 {
		return err
	}
	if err := c.checkWrites("create labels", repo, zap.Strings("labels", names(missing))); err != nil {
		return err
	}
	for _, l := range missing {
		_, _, err := c.lanes[laneCompletion].Issues.CreateLabel(ctx, p.owner, p.repo, &gh.Label{Name: &l.name, Color: &l.color, Description: &l.description})
		if err = normalize(err); err != nil && statusOf(err) != http.StatusUnprocessableEntity { // 422: somebody else made it
			return err
		}
	}
	if missing, err = c.missingLabels(ctx, p); err == nil && len(missing) > 0 {
		err = permanent("%s still lacks the labels %s: create them by hand, or give the token issues:write", repo, strings.Join(names(missing), ", "))
	}
	return err
}

func (c *Client) missingLabels(ctx context.Context, p place) ([]labelSpec, error) {
	missing := c.labels.specs()
	opts := &gh.ListOptions{PerPage: pageSize}
	for range labelPages {
		raw, resp, err := c.lanes[laneCompletion].Issues.ListLabels(ctx, p.owner, p.repo, opts)
		if err != nil {
			return nil, normalize(err)
		}
		for _, l := range raw {
			missing = slices.DeleteFunc(missing, func(m labelSpec) bool { return strings.EqualFold(m.name, l.GetName()) })
		}
		if opts.Page = resp.NextPage; opts.Page == 0 {
			break
		}
	}
	return missing, nil
}

func names(specs []labelSpec) []string {
	var out []string
	for _, l := range specs {
		out = append(out, l.name)
	}
	return out
}

// addLabel puts a label on an issue that lacks it. go-github would send a bare array, where GitHub describes an object.
func (c *Client) addLabel(ctx context.Context, l lane, t thread, label string) error {
	if t.issue.Has(label) {
		return nil
	}
	path := fmt.Sprintf("repos/%s/%s/issues/%d/labels", t.owner, t.repo, t.number)
	req, err := c.lanes[l].NewRequest(http.MethodPost, path, map[string][]string{"labels": {label}})
	if err == nil {
		_, err = c.lanes[l].Do(ctx, req, nil)
	}
	return normalize(err)
}

// dropLabel removes a label from an issue that carries it; after a 404 somebody else did. go-github does not escape names.
func (c *Client) dropLabel(ctx context.Context, l lane, t thread, label string) error {
	if !t.issue.Has(label) {
		return nil
	}
	_, err := c.lanes[l].Issues.RemoveLabelForIssue(ctx, t.owner, t.repo, t.number, url.PathEscape(label))
	return unlessGone(err)
}

// dropOthers removes all labels of ours but one, "" for all.
func (c *Client) dropOthers(ctx context.Context, l lane, t thread, kept string) (dropped bool, err error) {
	for _, label := range []string{c.labels.Claimed, c.labels.Task, c.labels.Blocked, c.labels.Review} {
		if strings.EqualFold(label, kept) || !t.issue.Has(label) {
			continue
		}
		if err := c.dropLabel(ctx, l, t, label); err != nil {
			return dropped, err
		}
		dropped = true
	}
	return dropped, nil
}

// moveLabels takes an issue from claimed to the label goal ("" for none) and reads back. The goal comes first, so that an
// interrupted move still shows the claimed label. When neither is there, an earlier move was completed and somebody has
// changed the labels since: they stay as they are, unless this is the first try.
func (c *Client) moveLabels(ctx context.Context, l lane, t thread, goal string, first bool) error {
	if !first && !t.issue.Has(c.labels.Claimed) && (goal == "" || !t.issue.Has(goal)) {
		return nil
	}
	if goal != "" {
		if err := c.addLabel(ctx, l, t, goal); err != nil {
			return err
		}
	}
	dropped, err := c.dropOthers(ctx, l, t, goal)
	if err != nil || !dropped && (goal == "" || t.issue.Has(goal)) {
		return err
	}
	now, err := c.issue(ctx, l, t.place)
	if err != nil {
		return err
	}
	if goal != "" && !now.Has(goal) || now.Has(c.labels.Claimed) {
		return transient(fmt.Sprintf("the labels of %s read back as %q", t.key(), now.Labels), nil)
	}
	return nil
}

// reviewedBefore reports whether the issue carries the review label since before a comment of ours: then we were interrupted between
// that comment and the labels.
func (c *Client) reviewedBefore(ctx context.Context, l lane, t thread, r comment) (bool, error) {
	if !t.issue.Has(c.labels.Review) {
		return false, nil
	}
	e, err := c.lastLabelEvent(ctx, l, t.place, c.labels.Review)
	return err == nil && e.GetEvent() == "labeled" && !e.GetCreatedAt().After(r.at), err
}

// lastLabelEvent is the last time that a label was put on an issue or taken off it, nil if never (in the latest two pages of
// events, if there are more).
func (c *Client) lastLabelEvent(ctx context.Context, l lane, p place, label string) (*gh.IssueEvent, error) {
	var latest *gh.IssueEvent
	opts := &gh.ListOptions{PerPage: pageSize}
	for {
		raw, resp, err := c.lanes[l].Issues.ListIssueEvents(ctx, p.owner, p.repo, p.number, opts)
		if err != nil {
			return nil, normalize(err)
		}
		for _, e := range raw {
			if strings.EqualFold(e.GetLabel().GetName(), label) {
				latest = e
			}
		}
		if resp.NextPage == 0 {
			return latest, nil
		}
		// Events come oldest first: after the first page only the last two matter.
		if opts.Page = resp.NextPage; opts.Page < resp.LastPage-1 {
			opts.Page, latest = resp.LastPage-1, nil
		}
	}
}

// KeepLabel makes an issue carry one of our labels alone, because people or bots have put on others or taken it off. If it was taken off, it is put
// back only with again; otherwise what took it off has changed more, and nothing is touched. A closed issue is left as it is.
func (c *Client) KeepLabel(ctx context.Context, key, label string, again bool) error {
	if err := c.checkWrites("label", key, zap.String("to", label)); err != nil {
		return err
	}
	p, err := parseKey(key)
	if err != nil {
		return err
	}
	issue, err := c.issue(ctx, laneCompletion, p)
	if err != nil || issue.State != "open" || !again && !issue.Has(label) {
		return err
	}
	t := thread{place: p, issue: issue}
	if err := c.addLabel(ctx, laneCompletion, t, label); err != nil {
		return err
	}
	_, err = c.dropOthers(ctx, laneCompletion, t, label)
	return err
}
