package tracker

import (
	"context"
	"slices"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/api"
	"retake/internal/github/gate"
)

// LabelHistory holds the events of one issue, oldest first. For a long history, it holds only the last two pages.
type LabelHistory struct {
	Labels Labels
	Former formerLabels
	offers map[string]bool // former task labels, in lower case
	Self   string
	Events []*gh.IssueEvent
}

// LabelHistory reads the events of an issue. It needs extra requests, so callers that need only the current labels
// should not use it.
func (c *Reader) LabelHistory(ctx context.Context, l gate.Lane, p api.Place) (LabelHistory, error) {
	h, err := c.NoHistory(ctx, l)
	if err != nil {
		return h, err
	}
	opts := &gh.ListOptions{PerPage: api.PageSize}
	for {
		raw, resp, err := c.conn.Lane(l).Issues.ListIssueEvents(ctx, p.Owner, p.Repo, p.Number, opts)
		if err != nil {
			return h, api.Normalize(err)
		}
		h.Events = append(h.Events, raw...)
		if resp.NextPage == 0 {
			return h, nil
		}
		// Events come oldest first, so skip to the last two pages.
		if opts.Page = resp.NextPage; opts.Page < resp.LastPage-1 {
			opts.Page, h.Events = resp.LastPage-1, nil
		}
	}
}

// NoHistory returns a LabelHistory without events, to which the caller can add events from another source.
func (c *Reader) NoHistory(ctx context.Context, l gate.Lane) (h LabelHistory, err error) {
	h = LabelHistory{Labels: c.Labels, Former: c.formerLabels()}
	if offers := c.offers.Load(); offers != nil {
		h.offers = *offers
	}
	h.Self, err = c.conn.Self(ctx, l)
	return h, err
}

func (h LabelHistory) is(e *gh.IssueEvent, event, label string) bool {
	return e.GetEvent() == event && h.Former.Same(e.GetLabel().GetName(), label)
}

// ByUs reports whether our own account caused the event.
func (h LabelHistory) ByUs(e *gh.IssueEvent) bool {
	return strings.EqualFold(e.GetActor().GetLogin(), h.Self)
}

// Last returns the index of the last event that added or removed a label, or -1.
func (h LabelHistory) Last(label string) int {
	return max(h.Lastly("labeled", label), h.Lastly("unlabeled", label))
}

// Lastly returns the index of a label's last event of the given type, "labeled" or "unlabeled", or -1.
func (h LabelHistory) Lastly(event, label string) int {
	for i, e := range slices.Backward(h.Events) {
		if h.is(e, event, label) {
			return i
		}
	}
	return -1
}

// PutOn reports whether the last change to a label was an addition by our account. at is the index of that event.
func (h LabelHistory) PutOn(label string) (at int, ok bool) {
	at = h.Last(label)
	return at, at >= 0 && h.Events[at].GetEvent() == "labeled" && h.ByUs(h.Events[at])
}

// At reports whether event i exists and has the given type. Indexes below 0 do not exist.
func (h LabelHistory) At(i int, event string) bool { return i >= 0 && h.Events[i].GetEvent() == event }

// Since reports whether event i exists and happened at the given time or later.
func (h LabelHistory) Since(i int, at time.Time) bool {
	return i >= 0 && !h.Events[i].GetCreatedAt().Before(at)
}

// TakenOff returns the index of the event in which a person removed a label, or -1 if a later event changed the label.
// A removal by another account always counts. A removal by our own account counts if the owner of the token made it by
// hand. TakenOff recognises this because the director always adds another of our labels before the removal or together
// with it.
func (h LabelHistory) TakenOff(label string) int {
	at, stands := -1, false // stands: our account added the label, and has not added another of our labels since
	for i, e := range h.Events {
		switch {
		case h.is(e, "labeled", label):
			at, stands = -1, h.ByUs(e)
		case e.GetEvent() == "labeled" && h.ByUs(e) && h.IsOurs(e):
			stands = false
			// one request replaced the labels
			if at >= 0 && h.ByUs(h.Events[at]) && h.Events[at].GetCreatedAt().Equal(e.GetCreatedAt()) {
				at = -1
			}
		case h.is(e, "unlabeled", label):
			if at = -1; stands || !h.ByUs(e) {
				at = i
			}
			stands = false
		}
	}
	return at
}

// IsOurs reports whether an event concerns one of our labels.
func (h LabelHistory) IsOurs(e *gh.IssueEvent) bool {
	name := e.GetLabel().GetName()
	_, former := h.Former[strings.ToLower(name)]
	return name != "" && (former || h.Labels.names(name) || h.offers[strings.ToLower(name)])
}

// PutBack reports whether the director itself, rather than the token's owner, added the task label in event at. Such an
// event offers the work again, but does not approve the issue's text. The director either removes another of our labels
// right after it, or removed the task label for a claim right before it.
func (h LabelHistory) PutBack(at int) bool {
	if !h.ByUs(h.Events[at]) {
		return false
	}
	if next := slices.IndexFunc(h.Events[at+1:], h.IsOurs); next >= 0 {
		e := h.Events[at+1+next]
		if h.ByUs(e) && e.GetEvent() == "unlabeled" && !h.IsTask(e, "unlabeled") {
			return true
		}
	}
	before := at - 1
	for before >= 0 && !h.IsOurs(h.Events[before]) {
		before--
	}
	if before < 0 || !h.ByUs(h.Events[before]) || !h.IsTask(h.Events[before], "unlabeled") {
		return false
	}
	for _, e := range slices.Backward(h.Events[:before]) {
		if claimed := h.is(e, "labeled", h.Labels.Claimed); claimed || h.IsTask(e, "labeled") {
			return claimed
		}
	}
	return false
}

// IsTask reports whether an event has the given type and concerns the task label, under its current or a former name.
func (h LabelHistory) IsTask(e *gh.IssueEvent, event string) bool {
	name := e.GetLabel().GetName()
	return e.GetEvent() == event && (strings.EqualFold(name, h.Labels.Task) || h.offers[strings.ToLower(name)])
}

// goneSince reports whether a label was removed at or after the given time, and was not added again.
func (h LabelHistory) goneSince(label string, since time.Time) bool {
	at := h.Last(label)
	return h.At(at, "unlabeled") && h.Since(at, since)
}

// Offered returns the index of the last addition of the task label, or -1.
func (h LabelHistory) Offered() int { return h.Lastly("labeled", h.Labels.Task) }

// OfferedBy returns the id of the event that last added the task label, or 0.
func (h LabelHistory) OfferedBy() int64 {
	if at := h.Offered(); at >= 0 {
		return h.Events[at].GetID()
	}
	return 0
}

// LastLabelEvent returns the last addition or removal of a label on an issue, or nil.
func (c *Reader) LastLabelEvent(ctx context.Context, l gate.Lane, p api.Place, label string) (*gh.IssueEvent, error) {
	h, err := c.LabelHistory(ctx, l, p)
	if at := h.Last(label); err == nil && at >= 0 {
		return h.Events[at], nil
	}
	return nil, err
}
