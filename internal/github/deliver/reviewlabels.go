package deliver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/tracker"
)

// toReview replaces the claimed label of a delivered issue with the review label, and returns the updated issue. If
// GraphQL works, the same request edits the claim comment.
func (c *Deliveries) toReview(ctx context.Context, t tracker.Thread, todo tracker.Bundle) (tracker.Thread, error) {
	// An earlier replaceLabels call may have been interrupted before repairLabels ran.
	if t.Issue.Has(c.read.Labels.Review) && !t.Issue.Has(c.read.Labels.Claimed) {
		if err := c.repairLabels(ctx, t, nil); err != nil {
			return t, err
		}
	}
	if done, err := c.replaceLabels(ctx, t); done || err != nil {
		return t, err
	}
	if err := c.write.ShowLabel(ctx, gate.Completion, t, c.read.Labels.Review); err != nil {
		return t, err
	}
	todo.Off = c.read.Labels.Others(c.read.Labels.Review)
	t, err := c.write.Mutate(ctx, gate.Completion, t, todo)
	if err != nil {
		return t, err
	}
	return t, c.write.DropOthers(ctx, gate.Completion, t, c.read.Labels.Review)
}

// finishReview removes the claimed label from a delivered issue if an earlier call edited the claim comment but did not
// remove the label. It keeps the label if the issue has the task label, because the label may belong to the next claim.
func (c *Deliveries) finishReview(ctx context.Context, t tracker.Thread) error {
	if _, held := t.Holder(); held || !t.Issue.Has(c.read.Labels.Review) || t.Issue.Has(c.read.Labels.Task) {
		return nil
	}
	return c.write.ChangeLabels(ctx, gate.Completion, t, "", c.read.Labels.Claimed)
}

// replaceLabels replaces the claimed label with the review label in one REST request that sets all labels of the issue.
// The request overwrites concurrent label changes, which repairLabels then restores. If GraphQL is available, or if the
// issue has another of the director's labels, replaceLabels returns false without changing anything.
func (c *Deliveries) replaceLabels(ctx context.Context, t tracker.Thread) (done bool, err error) {
	if !c.write.RestAlone() || !t.Issue.Has(c.read.Labels.Claimed) {
		return false, nil
	}
	if t.Issue, err = c.read.IssueAt(ctx, gate.Completion,
		t.Place); err != nil { // opening the pull request takes time, so t may be stale
		return false, err
	}
	if !t.Issue.Has(c.read.Labels.Claimed) || t.Issue.Has(c.read.Labels.Task) || t.Issue.Has(c.read.Labels.Blocked) ||
		t.Issue.Has(c.read.Labels.Review) {
		return false, nil
	}
	claimed := t.Issue.Named(c.read.Labels.Claimed)
	want := slices.DeleteFunc(slices.Clone(t.Issue.Labels), func(l string) bool { return slices.Contains(claimed, l) })
	want = append(want, c.read.Labels.Review)
	var now []gh.Label
	path := fmt.Sprintf("repos/%s/%s/issues/%d/labels", t.Owner, t.Repo, t.Number)
	if _, err := c.conn.Do(ctx, gate.Completion, http.MethodPut, path, map[string][]string{"labels": want},
		&now); err != nil {
		return false, err
	}
	if !slices.ContainsFunc(now, func(on gh.Label) bool {
		return strings.EqualFold(on.GetName(),
			c.read.Labels.Review)
	}) {
		return false, api.Transient(fmt.Sprintf("GitHub accepted the label %s for %s, but the issue does not have it",
			c.read.Labels.Review, t.Key()), nil)
	}
	return true, c.repairLabels(ctx, t, want)
}

// repairLabels restores the concurrent label changes that replaceLabels overwrote, which it finds in GitHub's events.
// to lists the labels that replaceLabels wrote. It is nil if the director has restarted since and no longer knows them.
func (c *Deliveries) repairLabels(ctx context.Context, t tracker.Thread, to []string) error {
	h, err := c.read.LabelHistory(ctx, gate.Completion, t.Place)
	if err != nil {
		return err
	}
	if on, off := h.Last(c.read.Labels.Review), h.Last(c.read.Labels.Claimed); !h.At(on, "labeled") ||
		!h.At(off, "unlabeled") {
		return &api.Error{Kind: api.KindTransient, Message: "GitHub's events do not yet show how the labels of " +
			t.Key() +
			" were changed", Doubtful: true}
	}
	on, off := setAtOnce(h, to)
	for _, label := range on {
		if err := c.write.AddLabel(ctx, gate.Completion, tracker.Thread{Place: t.Place}, label); err != nil {
			return err
		}
	}
	for _, label := range off {
		if _, err := c.write.RemoveLabel(ctx, gate.Completion, tracker.Thread{Place: t.Place}, label); err != nil {
			return err
		}
	}
	return nil
}

// sameMoment is the maximum age of a change that replaceLabels can overwrite, because its request never waits longer.
const sameMoment = 10 * time.Minute

// setAtOnce returns the labels that replaceLabels removed (on) or added (off) by accident. It derives the time of the
// write from the intended changes to the claimed and the review label. GitHub's times are whole seconds, and one write
// takes less than one second. Our repair comes at least a second later.
//
// A change by our account in that second may also come from the owner of the token. It counts as part of the write only
// if it agrees with the labels in to. If to is nil, it counts only if it reverted a recent change.
//
// The write starts from labels that include the claimed label, so it cannot revert a change that is older than the
// claimed label. A removal that seems to do so comes from the claim, possibly in the same second.
func setAtOnce(h tracker.LabelHistory, to []string) (on, off []string) {
	second := func(i int) time.Time { return h.Events[i].GetCreatedAt().UTC().Truncate(time.Second) }
	// first is the time of the write: the later of the two changes, or the earlier one if they are one second apart.
	var first time.Time
	for _, i := range []int{h.Last(h.Labels.Review), h.Last(h.Labels.Claimed)} {
		if i < 0 || !h.ByUs(h.Events[i]) {
			continue
		}
		switch at := second(i); {
		case first.IsZero() || at.Sub(first) > time.Second, first.Sub(at) == time.Second:
			first = at
		}
	}
	atOnce := func(i int) bool {
		return i >= 0 && h.ByUs(h.Events[i]) && !second(i).Before(first) && second(i).Sub(first) <= time.Second
	}
	claimed := h.Lastly("labeled", h.Labels.Claimed)
	latest, before := map[string]int{}, map[string]int{}
	for i, e := range h.Events {
		name := e.GetLabel().GetName()
		if (e.GetEvent() != "labeled" && e.GetEvent() != "unlabeled") || h.Former.Same(name, h.Labels.Review) ||
			h.Former.Same(name, h.Labels.Claimed) {
			continue
		}
		before[name] = -1
		if last, known := latest[name]; known {
			before[name] = last
		}
		latest[name] = i
	}
	for name, i := range latest {
		was, gone := before[name], h.Events[i].GetEvent() == "unlabeled"
		undone := was >= 0 && first.Sub(second(was)) <= sameMoment
		if to != nil {
			undone = gone != slices.Contains(to, name)
		}
		repaired := atOnce(was) && second(was).Before(second(i))
		switch {
		case !atOnce(i) || repaired || !undone || was >= 0 && was < claimed:
		case gone:
			on = append(on, name)
		default:
			off = append(off, name)
		}
	}
	slices.Sort(on)
	slices.Sort(off)
	return on, off
}
