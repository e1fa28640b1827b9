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

// toReview takes a delivered issue from claimed to review, and returns it as it is then. With GraphQL the
// claim's comment is written in the same request.
func (c *Deliveries) toReview(ctx context.Context, t tracker.Thread, todo tracker.Bundle) (tracker.Thread, error) {
	// a repetition: the last one may have set all labels at once
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

// finishReview takes the claimed label off a delivered issue whose claim comment was written without it. With
// the task label it may be the next claim's.
func (c *Deliveries) finishReview(ctx context.Context, t tracker.Thread) error {
	if _, held := t.Holder(); held || !t.Issue.Has(c.read.Labels.Review) || t.Issue.Has(c.read.Labels.Task) {
		return nil
	}
	return c.write.DropLabel(ctx, gate.Completion, t, c.read.Labels.Claimed)
}

// replaceLabels is what REST alone has to take an issue from claimed to review in one write: all labels are set
// at once. What somebody else has changed since they were read is undone by that, and repaired. It is done only
// while GraphQL fails, and only if no other label of ours is on.
func (c *Deliveries) replaceLabels(ctx context.Context, t tracker.Thread) (done bool, err error) {
	if !c.write.RestAlone() || !t.Issue.Has(c.read.Labels.Claimed) {
		return false, nil
	}
	if t.Issue, err = c.read.IssueAt(ctx, gate.Completion,
		t.Place); err != nil { // a pull request may have been made since
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
		return false, api.Transient(fmt.Sprintf("the label %s was accepted for %s, but is not among its labels",
			c.read.Labels.Review, t.Key()), nil)
	}
	return true, c.repairLabels(ctx, t, want)
}

// repairLabels gives back what others have changed while all labels were set at once, as GitHub's events tell.
// After a restart nobody knows any more what they were set to: nil.
func (c *Deliveries) repairLabels(ctx context.Context, t tracker.Thread, to []string) error {
	h, err := c.read.LabelHistory(ctx, gate.Completion, t.Place)
	if err != nil {
		return err
	}
	if on, off := h.Last(c.read.Labels.Review), h.Last(c.read.Labels.Claimed); !h.At(on, "labeled") ||
		!h.At(off, "unlabeled") {
		return &api.Error{Kind: api.KindTransient, Message: "GitHub's events do not show yet how the labels of " +
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
func setAtOnce(h tracker.LabelHistory, to []string) (on, off []string) {
	second := func(i int) time.Time { return h.Events[i].GetCreatedAt().UTC().Truncate(time.Second) }
	var first time.Time // the latest of the two, or the other one, if that was a second before
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
