package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"
	"go.uber.org/zap"

	"retake/internal/github/gate"
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

// EnsureLabels creates the labels that a repository lacks and reads them back. With writes off it only reads,
// and returns ErrWritesDisabled if one is missing.
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
		_, _, err := c.lanes[gate.Completion].Issues.CreateLabel(ctx, p.owner, p.repo,
			&gh.Label{Name: &l.name, Color: &l.color, Description: &l.description})
		// 422: somebody else made it
		if err = normalize(err); err != nil && statusOf(err) != http.StatusUnprocessableEntity {
			return err
		}
	}
	if missing, err = c.missingLabels(ctx, p); err == nil && len(missing) > 0 {
		err = permanent("%s still lacks the labels %s: create them by hand, or give the token issues:write", repo,
			strings.Join(names(missing), ", "))
	}
	return err
}

func (c *Client) missingLabels(ctx context.Context, p place) ([]labelSpec, error) {
	missing := c.labels.specs()
	opts := &gh.ListOptions{PerPage: pageSize}
	for range labelPages {
		raw, resp, err := c.lanes[gate.Completion].Issues.ListLabels(ctx, p.owner, p.repo, opts)
		if err != nil {
			return nil, normalize(err)
		}
		for _, l := range raw {
			missing = slices.DeleteFunc(missing,
				func(m labelSpec) bool { return strings.EqualFold(m.name, l.GetName()) })
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
func (c *Client) addLabel(ctx context.Context, l gate.Lane, t thread, label string) error {
	if t.issue.Has(label) {
		return nil
	}
	path := fmt.Sprintf("repos/%s/%s/issues/%d/labels", t.owner, t.repo, t.number)
	req, err := c.lanes[l].NewRequest(http.MethodPost, path, map[string][]string{"labels": {label}})
	var now []gh.Label // that the issue carries
	if err == nil {
		_, err = c.lanes[l].Do(ctx, req, &now)
	}
	if err == nil && !slices.ContainsFunc(now,
		func(on gh.Label) bool { return strings.EqualFold(on.GetName(), label) }) {
		err = transient(fmt.Sprintf("the label %s was accepted for %s, but is not among its labels", label, t.key()),
			nil)
	}
	return normalize(err)
}

// dropLabel removes a label from an issue that carries it, under each of its names.
func (c *Client) dropLabel(ctx context.Context, l gate.Lane, t thread, label string) error {
	for _, name := range t.issue.named(label) {
		if _, err := c.removeLabel(ctx, l, t, name); err != nil {
			return err
		}
	}
	return nil
}

// removeLabel removes a label, and returns the issue with the labels that it carries then; nil: somebody else
// has removed it (404). go-github returns nothing.
func (c *Client) removeLabel(ctx context.Context, l gate.Lane, t thread, name string) (*Issue, error) {
	path := fmt.Sprintf("repos/%s/%s/issues/%d/labels/%s", t.owner, t.repo, t.number, url.PathEscape(name))
	req, err := c.lanes[l].NewRequest(http.MethodDelete, path, nil)
	var left []gh.Label
	if err == nil {
		_, err = c.lanes[l].Do(ctx, req, &left)
	}
	if err = normalize(err); err != nil {
		return nil, unlessGone(err)
	}
	now := t.issue
	now.Labels = nil
	for _, on := range left {
		now.Labels = append(now.Labels, on.GetName())
	}
	if slices.Contains(now.Labels, name) {
		return nil, transient(fmt.Sprintf("the label %s was said to be off %s, and is among its labels", name, t.key()),
			nil)
	}
	return &now, nil
}

// others are our labels but one, "" for all.
func (l Labels) others(kept string) []string {
	return slices.DeleteFunc([]string{l.Claimed, l.Task, l.Blocked, l.Review},
		func(label string) bool { return strings.EqualFold(label, kept) })
}

// dropOthers removes all labels of ours but one, "" for all.
func (c *Client) dropOthers(ctx context.Context, l gate.Lane, t thread, kept string) error {
	for _, label := range c.labels.others(kept) {
		if err := c.dropLabel(ctx, l, t, label); err != nil {
			return err
		}
	}
	return nil
}

// movedAway reports whether an issue has neither the claimed label nor the one that a move goes to, "" for
// none: the move was completed, and somebody has changed the labels since, or they have never come on, whatever
// GitHub said.
func (c *Client) movedAway(t thread, goal string) bool {
	return !t.issue.Has(c.labels.Claimed) && (goal == "" || !t.issue.Has(goal))
}

// leftAlone reports whether a move to goal was completed, and somebody has taken that label off since.
func (c *Client) leftAlone(ctx context.Context, l gate.Lane, t thread, goal string, since time.Time) (bool, error) {
	if goal == "" || !c.movedAway(t, goal) {
		return c.movedAway(t, goal), nil
	}
	h, err := c.labelHistory(ctx, l, t.place)
	return err == nil && h.goneSince(goal, since), err
}

// moveLabels takes an issue from claimed to the label goal ("" for none). The goal comes first and is read
// back, so that an interrupted move still shows the claimed label, and a goal that is missing later was taken
// off.
func (c *Client) moveLabels(ctx context.Context, l gate.Lane, t thread, goal string) error {
	if err := c.showLabel(ctx, l, t, goal); err != nil {
		return err
	}
	return c.dropOthers(ctx, l, t, goal)
}

// showLabel puts a label on and reads it back; nothing for "".
func (c *Client) showLabel(ctx context.Context, l gate.Lane, t thread, goal string) error {
	if goal == "" || t.issue.Has(goal) {
		return nil
	}
	if err := c.addLabel(ctx, l, t, goal); err != nil {
		return err
	}
	now, err := c.issue(ctx, l, t.place)
	if err == nil && !now.Has(goal) {
		err = transient(fmt.Sprintf("the labels of %s read back as %q", t.key(), now.Labels), nil)
	}
	return err
}

// reviewedBefore reports whether the issue carries the review label since before a comment of ours: then we
// were interrupted between that comment and the labels.
func (c *Client) reviewedBefore(ctx context.Context, l gate.Lane, t thread, r comment) (bool, error) {
	if !t.issue.Has(c.labels.Review) {
		return false, nil
	}
	e, err := c.lastLabelEvent(ctx, l, t.place, c.labels.Review)
	return err == nil && e.GetEvent() == "labeled" && !e.GetCreatedAt().After(r.at), err
}

// Offer puts the label of tasks on an issue, and takes none off. On one that carries it nothing happens.
func (c *Client) Offer(ctx context.Context, key string) error {
	if err := c.checkWrites("offer", key, zap.String("to", c.labels.Task)); err != nil {
		return err
	}
	p, err := parseKey(key)
	if err != nil {
		return err
	}
	issue, err := c.issue(ctx, gate.Claim, p)
	if err != nil {
		return err
	}
	return c.addLabel(ctx, gate.Claim, thread{place: p, issue: issue}, c.labels.Task)
}

// KeepLabel makes an issue carry one of our labels alone, because people or bots have put on others or taken it
// off. If it was taken off, it is put back only with again; otherwise what took it off has changed more, and
// nothing is touched. A closed issue is left as it is.
func (c *Client) KeepLabel(ctx context.Context, key, label string, again bool) error {
	if err := c.checkWrites("label", key, zap.String("to", label)); err != nil {
		return err
	}
	p, err := parseKey(key)
	if err != nil {
		return err
	}
	issue, err := c.issue(ctx, gate.Completion, p)
	if err != nil || issue.State != "open" || !again && !issue.Has(label) {
		return err
	}
	t := thread{place: p, issue: issue}
	if err := c.addLabel(ctx, gate.Completion, t, label); err != nil {
		return err
	}
	return c.dropOthers(ctx, gate.Completion, t, label)
}
