package tracker

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

	"retake/internal/github/api"
	"retake/internal/github/gate"
)

// labelPages is the maximum number of label pages to read from a repository. They hold 2,000 labels.
const labelPages = 20

// LabelSpec is a label that we create.
type LabelSpec struct{ name, color, description string }

func (l Labels) specs() []LabelSpec {
	return []LabelSpec{
		{l.Task, "0e8a16", "Add this label to an issue to have Retake work on it"},
		{l.Claimed, "fbca04", "Retake is working on this"},
		{l.Blocked, "d93f0b", "Retake has stopped and needs a human: see its question"},
		{l.Review, "1d76db", "Retake has finished: ready for review"},
	}
}

// EnsureLabels creates the missing labels in a repository and reads them back. If writes are disabled and a label is
// missing, it returns ErrWritesDisabled.
func (c *Writer) EnsureLabels(ctx context.Context, repo string) error {
	p, err := api.ParseRepo(repo)
	if err != nil {
		return err
	}
	missing, err := c.MissingLabels(ctx, p)
	if err != nil || len(missing) == 0 {
		return err
	}
	if err := c.conn.CheckWrites("create labels", repo, zap.Strings("labels", Names(missing))); err != nil {
		return err
	}
	for _, l := range missing {
		_, _, err := c.conn.Lane(gate.Completion).Issues.CreateLabel(ctx, p.Owner, p.Repo,
			&gh.Label{Name: &l.name, Color: &l.color, Description: &l.description})
		// 422: another client created it
		if err = api.Normalize(err); err != nil && api.StatusOf(err) != http.StatusUnprocessableEntity {
			return err
		}
	}
	if missing, err = c.MissingLabels(ctx, p); err == nil && len(missing) > 0 {
		err = api.Permanent("%s is still missing the labels %s: create them by hand, or grant the token issues:write",
			repo,
			strings.Join(Names(missing), ", "))
	}
	return err
}

// MissingLabels lists our labels that are missing from the repository.
func (c *Writer) MissingLabels(ctx context.Context, p api.Place) ([]LabelSpec, error) {
	missing := c.read.Labels.specs()
	opts := &gh.ListOptions{PerPage: api.PageSize}
	for range labelPages {
		raw, resp, err := c.conn.Lane(gate.Completion).Issues.ListLabels(ctx, p.Owner, p.Repo, opts)
		if err != nil {
			return nil, api.Normalize(err)
		}
		for _, l := range raw {
			missing = slices.DeleteFunc(missing,
				func(m LabelSpec) bool { return strings.EqualFold(m.name, l.GetName()) })
		}
		if opts.Page = resp.NextPage; opts.Page == 0 {
			break
		}
	}
	return missing, nil
}

// Names returns the names of the labels in specs.
func Names(specs []LabelSpec) []string {
	var out []string
	for _, l := range specs {
		out = append(out, l.name)
	}
	return out
}

// ChangeLabels adds the label in on, unless it is "". Then it removes the labels in off, under their current and former
// names. It uses GraphQL first, and then REST for the changes that are still missing.
func (c *Writer) ChangeLabels(ctx context.Context, l gate.Lane, t Thread, on string, off ...string) error {
	t, err := c.Mutate(ctx, l, t, Bundle{On: on, Off: off})
	if err == nil && on != "" {
		err = c.AddLabel(ctx, l, t, on)
	}
	for _, label := range off {
		if err != nil {
			break
		}
		err = c.DropLabel(ctx, l, t, label)
	}
	return err
}

// AddLabel adds a label through REST, unless the issue has it. It does not use go-github's method, which sends an array
// although GitHub specifies an object.
func (c *Writer) AddLabel(ctx context.Context, l gate.Lane, t Thread, label string) error {
	if t.Issue.Has(label) {
		return nil
	}
	path := fmt.Sprintf("repos/%s/%s/issues/%d/labels", t.Owner, t.Repo, t.Number)
	var now []gh.Label // the issue's labels after the change
	_, err := c.conn.Do(ctx, l, http.MethodPost, path, map[string][]string{"labels": {label}}, &now)
	if err == nil && !slices.ContainsFunc(now,
		func(on gh.Label) bool { return strings.EqualFold(on.GetName(), label) }) {
		err = api.Transient(fmt.Sprintf("GitHub accepted the label %s for %s, but does not list it", label,
			t.Key()),
			nil)
	}
	return err
}

// DropLabel removes a label through REST, under every name that the issue has for it.
func (c *Writer) DropLabel(ctx context.Context, l gate.Lane, t Thread, label string) error {
	for _, name := range t.Issue.Named(label) {
		if _, err := c.RemoveLabel(ctx, l, t, name); err != nil {
			return err
		}
	}
	return nil
}

// RemoveLabel removes a label and returns the issue with its remaining labels. It returns nil if another client has
// already removed the label (404). It does not use go-github's method, which does not return the remaining labels.
func (c *Writer) RemoveLabel(ctx context.Context, l gate.Lane, t Thread, name string) (*Issue, error) {
	path := fmt.Sprintf("repos/%s/%s/issues/%d/labels/%s", t.Owner, t.Repo, t.Number, url.PathEscape(name))
	var left []gh.Label
	if _, err := c.conn.Do(ctx, l, http.MethodDelete, path, nil, &left); err != nil {
		return nil, api.UnlessGone(err)
	}
	now := t.Issue
	now.Labels = nil
	for _, on := range left {
		now.Labels = append(now.Labels, on.GetName())
	}
	if slices.Contains(now.Labels, name) {
		return nil, api.Transient(fmt.Sprintf("GitHub reported the label %s removed from %s, but still lists it", name,
			t.Key()),
			nil)
	}
	return &now, nil
}

// Others returns our labels except kept, or all of them if kept is "".
func (l Labels) Others(kept string) []string {
	return slices.DeleteFunc([]string{l.Claimed, l.Task, l.Blocked, l.Review},
		func(label string) bool { return strings.EqualFold(label, kept) })
}

// DropOthers removes all our labels except kept, or all of them if kept is "", through REST.
func (c *Writer) DropOthers(ctx context.Context, l gate.Lane, t Thread, kept string) error {
	for _, label := range c.read.Labels.Others(kept) {
		if err := c.DropLabel(ctx, l, t, label); err != nil {
			return err
		}
	}
	return nil
}

// MovedAway reports whether an issue lacks both the claimed label and the label goal after a call to MoveLabels. Either
// the call succeeded and the labels have changed since, or GitHub confirmed a change that it did not make.
func (c *Writer) MovedAway(t Thread, goal string) bool {
	return !t.Issue.Has(c.read.Labels.Claimed) && (goal == "" || !t.Issue.Has(goal))
}

// LeftAlone reports whether MoveLabels must not be repeated, because an earlier call succeeded and another client then
// removed the label goal. Removals before since do not count. If goal is "", LeftAlone only reports whether the claimed
// label is gone.
func (c *Writer) LeftAlone(ctx context.Context, l gate.Lane, t Thread, goal string, since time.Time) (bool, error) {
	if goal == "" || !c.MovedAway(t, goal) {
		return c.MovedAway(t, goal), nil
	}
	h, err := c.read.LabelHistory(ctx, l, t.Place)
	return err == nil && h.goneSince(goal, since), err
}

// MoveLabels replaces all our labels on an issue with the label goal, or only removes them if goal is "". It adds goal
// first and reads it back. So the issue keeps the claimed label if the call is interrupted, and if goal is missing
// after a successful call, another client has removed it.
func (c *Writer) MoveLabels(ctx context.Context, l gate.Lane, t Thread, goal string) error {
	if err := c.ShowLabel(ctx, l, t, goal); err != nil {
		return err
	}
	return c.ChangeLabels(ctx, l, t, "", c.read.Labels.Others(goal)...)
}

// ShowLabel adds a label and reads it back. It does nothing for "".
func (c *Writer) ShowLabel(ctx context.Context, l gate.Lane, t Thread, goal string) error {
	if goal == "" || t.Issue.Has(goal) {
		return nil
	}
	if err := c.ChangeLabels(ctx, l, t, goal); err != nil {
		return err
	}
	now, err := c.read.IssueAt(ctx, l, t.Place)
	if err == nil && !now.Has(goal) {
		err = api.Transient(fmt.Sprintf("GitHub still lists the labels of %s as %q", t.Key(), now.Labels), nil)
	}
	return err
}

// ReviewedBefore reports whether the issue got its review label before a comment by the director. If so, the director
// was interrupted between the comment and the label changes.
func (c *Writer) ReviewedBefore(ctx context.Context, l gate.Lane, t Thread, r Comment) (bool, error) {
	if !t.Issue.Has(c.read.Labels.Review) {
		return false, nil
	}
	e, err := c.read.LastLabelEvent(ctx, l, t.Place, c.read.Labels.Review)
	return err == nil && e.GetEvent() == "labeled" && !e.GetCreatedAt().After(r.At), err
}

// Offer adds the task label to an issue and keeps the other labels. It does nothing if the issue has the label.
func (c *Writer) Offer(ctx context.Context, key string) error {
	if err := c.conn.CheckWrites("offer", key, zap.String("to", c.read.Labels.Task)); err != nil {
		return err
	}
	p, err := api.ParseKey(key)
	if err != nil {
		return err
	}
	issue, err := c.read.IssueAt(ctx, gate.Claim, p)
	if err != nil {
		return err
	}
	return c.ChangeLabels(ctx, gate.Claim, Thread{Place: p, Issue: issue}, c.read.Labels.Task)
}

// KeepLabel makes label the only one of our labels on an issue, after people or bots changed the labels. If label
// itself was removed, KeepLabel adds it only if again is set, because the removal may be a person's decision. It does
// nothing if the issue is closed.
func (c *Writer) KeepLabel(ctx context.Context, key, label string, again bool) error {
	if err := c.conn.CheckWrites("label", key, zap.String("to", label)); err != nil {
		return err
	}
	p, err := api.ParseKey(key)
	if err != nil {
		return err
	}
	issue, err := c.read.IssueAt(ctx, gate.Completion, p)
	if err != nil || issue.State != "open" || !again && !issue.Has(label) {
		return err
	}
	return c.ChangeLabels(ctx, gate.Completion, Thread{Place: p, Issue: issue}, label, c.read.Labels.Others(label)...)
}
