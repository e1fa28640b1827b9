package github

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/gate"
)

// toReview takes a delivered issue from claimed to review, and returns it as it is then. With GraphQL the
// claim's comment is written in the same request.
func (c *Client) toReview(ctx context.Context, t thread, todo bundle) (thread, error) {
	// a repetition: the last one may have set all labels at once
	if t.issue.Has(c.labels.Review) && !t.issue.Has(c.labels.Claimed) {
		if err := c.repairLabels(ctx, t, nil); err != nil {
			return t, err
		}
	}
	if done, err := c.replaceLabels(ctx, t); done || err != nil {
		return t, err
	}
	if err := c.showLabel(ctx, gate.Completion, t, c.labels.Review); err != nil {
		return t, err
	}
	todo.off = c.labels.others(c.labels.Review)
	t, err := c.mutate(ctx, gate.Completion, t, todo)
	if err != nil {
		return t, err
	}
	return t, c.dropOthers(ctx, gate.Completion, t, c.labels.Review)
}

// finishReview takes the claimed label off a delivered issue whose claim comment was written without it. With
// the task label it may be the next claim's.
func (c *Client) finishReview(ctx context.Context, t thread) error {
	if _, held := t.holder(); held || !t.issue.Has(c.labels.Review) || t.issue.Has(c.labels.Task) {
		return nil
	}
	return c.dropLabel(ctx, gate.Completion, t, c.labels.Claimed)
}

// replaceLabels is what REST alone has to take an issue from claimed to review in one write: all labels are set
// at once. What somebody else has changed since they were read is undone by that, and repaired. It is done only
// while GraphQL fails, and only if no other label of ours is on.
func (c *Client) replaceLabels(ctx context.Context, t thread) (done bool, err error) {
	if !c.restAlone() || !t.issue.Has(c.labels.Claimed) {
		return false, nil
	}
	if t.issue, err = c.issue(ctx, gate.Completion, t.place); err != nil { // a pull request may have been made since
		return false, err
	}
	if !t.issue.Has(c.labels.Claimed) || t.issue.Has(c.labels.Task) || t.issue.Has(c.labels.Blocked) ||
		t.issue.Has(c.labels.Review) {
		return false, nil
	}
	claimed := t.issue.named(c.labels.Claimed)
	want := slices.DeleteFunc(slices.Clone(t.issue.Labels), func(l string) bool { return slices.Contains(claimed, l) })
	want = append(want, c.labels.Review)
	api := c.lanes[gate.Completion]
	r, err := api.NewRequest(http.MethodPut, fmt.Sprintf("repos/%s/%s/issues/%d/labels", t.owner, t.repo, t.number),
		map[string][]string{"labels": want})
	var now []gh.Label
	if err == nil {
		_, err = api.Do(ctx, r, &now)
	}
	if err = normalize(err); err != nil {
		return false, err
	}
	if !slices.ContainsFunc(now, func(on gh.Label) bool { return strings.EqualFold(on.GetName(), c.labels.Review) }) {
		return false, transient(fmt.Sprintf("the label %s was accepted for %s, but is not among its labels",
			c.labels.Review, t.key()), nil)
	}
	return true, c.repairLabels(ctx, t, want)
}

// repairLabels gives back what others have changed while all labels were set at once, as GitHub's events tell.
// After a restart nobody knows any more what they were set to: nil.
func (c *Client) repairLabels(ctx context.Context, t thread, to []string) error {
	h, err := c.labelHistory(ctx, gate.Completion, t.place)
	if err != nil {
		return err
	}
	if on, off := h.last(c.labels.Review), h.last(c.labels.Claimed); !h.at(on, "labeled") || !h.at(off, "unlabeled") {
		return &Error{Kind: KindTransient, Message: "GitHub's events do not show yet how the labels of " + t.key() +
			" were changed", Doubtful: true}
	}
	on, off := h.setAtOnce(to)
	for _, label := range on {
		if err := c.addLabel(ctx, gate.Completion, thread{place: t.place}, label); err != nil {
			return err
		}
	}
	for _, label := range off {
		if _, err := c.removeLabel(ctx, gate.Completion, thread{place: t.place}, label); err != nil {
			return err
		}
	}
	return nil
}

// sameMoment is within what time before all labels were set somebody else's change may have come that this
// undid: as long as the write waits at most.
const sameMoment = 10 * time.Minute

// setAtOnce are the labels that we have taken off (on) and put on (off) as we set all labels, without wanting
// to: all but the claimed and the review label, whose changes tell when that was. GitHub's times are whole
// seconds, and one write takes less than one. Our own repair comes at least a second later. What our account
// changed in that second may be a person's doing, whose token we use: it was ours only if it agrees with what
// we set the labels to, or, if that is not known any more, undid what was changed not long before. What was
// changed before the claimed label came on is never undone by that write, which is made from labels that were
// read with the claimed label among them: it is the claim that has taken those labels off, maybe in the same
// second.
func (h labelHistory) setAtOnce(to []string) (on, off []string) {
	second := func(i int) time.Time { return h.events[i].GetCreatedAt().UTC().Truncate(time.Second) }
	var first time.Time // the latest of the two, or the other one, if that was a second before
	for _, i := range []int{h.last(h.labels.Review), h.last(h.labels.Claimed)} {
		if i < 0 || !h.byUs(h.events[i]) {
			continue
		}
		switch at := second(i); {
		case first.IsZero() || at.Sub(first) > time.Second, first.Sub(at) == time.Second:
			first = at
		}
	}
	atOnce := func(i int) bool {
		return i >= 0 && h.byUs(h.events[i]) && !second(i).Before(first) && second(i).Sub(first) <= time.Second
	}
	claimed := h.lastly("labeled", h.labels.Claimed)
	latest, before := map[string]int{}, map[string]int{}
	for i, e := range h.events {
		name := e.GetLabel().GetName()
		if (e.GetEvent() != "labeled" && e.GetEvent() != "unlabeled") || h.former.same(name, h.labels.Review) ||
			h.former.same(name, h.labels.Claimed) {
			continue
		}
		before[name] = -1
		if last, known := latest[name]; known {
			before[name] = last
		}
		latest[name] = i
	}
	for name, i := range latest {
		was, gone := before[name], h.events[i].GetEvent() == "unlabeled"
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
