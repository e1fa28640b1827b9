package github

import (
	"context"
	"slices"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/gate"
)

// labelHistory is what happened to the labels of one issue, oldest first; of many events, those of the latest
// two pages.
type labelHistory struct {
	labels Labels
	former formerLabels
	offers map[string]bool // labels that offered work earlier, in small letters
	self   string
	events []*gh.IssueEvent
}

// labelHistory reads it. Whoever wants to know only whether a label is on need not ask for it.
func (c *Client) labelHistory(ctx context.Context, l gate.Lane, p place) (labelHistory, error) {
	h, err := c.noHistory(ctx, l)
	if err != nil {
		return h, err
	}
	opts := &gh.ListOptions{PerPage: pageSize}
	for {
		raw, resp, err := c.lanes[l].Issues.ListIssueEvents(ctx, p.owner, p.repo, p.number, opts)
		if err != nil {
			return h, normalize(err)
		}
		h.events = append(h.events, raw...)
		if resp.NextPage == 0 {
			return h, nil
		}
		// Events come oldest first: after the first page only the last two matter.
		if opts.Page = resp.NextPage; opts.Page < resp.LastPage-1 {
			opts.Page, h.events = resp.LastPage-1, nil
		}
	}
}

// noHistory is one without events.
func (c *Client) noHistory(ctx context.Context, l gate.Lane) (h labelHistory, err error) {
	h = labelHistory{labels: c.labels, former: c.formerLabels()}
	if offers := c.offers.Load(); offers != nil {
		h.offers = *offers
	}
	h.self, err = c.self(ctx, l)
	return h, err
}

func (h labelHistory) is(e *gh.IssueEvent, event, label string) bool {
	return e.GetEvent() == event && h.former.same(e.GetLabel().GetName(), label)
}

func (h labelHistory) byUs(e *gh.IssueEvent) bool {
	return strings.EqualFold(e.GetActor().GetLogin(), h.self)
}

// last is where a label was put on or taken off last, -1 if never.
func (h labelHistory) last(label string) int {
	return max(h.lastly("labeled", label), h.lastly("unlabeled", label))
}

func (h labelHistory) lastly(event, label string) int {
	for i, e := range slices.Backward(h.events) {
		if h.is(e, event, label) {
			return i
		}
	}
	return -1
}

// putOn reports whether we are the last who touched a label, putting it on, and where.
func (h labelHistory) putOn(label string) (at int, ok bool) {
	at = h.last(label)
	return at, at >= 0 && h.events[at].GetEvent() == "labeled" && h.byUs(h.events[at])
}

// at reports whether an event is there, and of that kind.
func (h labelHistory) at(i int, event string) bool { return i >= 0 && h.events[i].GetEvent() == event }

// since reports whether an event is there, and from that time or later.
func (h labelHistory) since(i int, at time.Time) bool {
	return i >= 0 && !h.events[i].GetCreatedAt().Before(at)
}

// takenOff is where a person has taken a label off, -1 if that is not the last that happened to it. Everybody
// of another account than ours is one. By our own account it was the person whose token we use, unless the
// director itself did it, which puts another label of ours on before, or at the same time.
func (h labelHistory) takenOff(label string) int {
	at, stands := -1, false // stands: we have put it on, and no other one since
	for i, e := range h.events {
		switch {
		case h.is(e, "labeled", label):
			at, stands = -1, h.byUs(e)
		case e.GetEvent() == "labeled" && h.byUs(e) && h.isOurs(e):
			stands = false
			// all labels were set at once
			if at >= 0 && h.byUs(h.events[at]) && h.events[at].GetCreatedAt().Equal(e.GetCreatedAt()) {
				at = -1
			}
		case h.is(e, "unlabeled", label):
			if at = -1; stands || !h.byUs(e) {
				at = i
			}
			stands = false
		}
	}
	return at
}

// isOurs reports whether an event is about a label of ours.
func (h labelHistory) isOurs(e *gh.IssueEvent) bool {
	name := e.GetLabel().GetName()
	_, former := h.former[strings.ToLower(name)]
	return name != "" && (former || h.labels.names(name) || h.offers[strings.ToLower(name)])
}

// putBack reports whether a labelling was our own doing, which offers work again and says nothing about the
// issue's text: a label of ours that says that the issue is taken goes off right after it, or a claim has taken
// the task label off right before it.
func (h labelHistory) putBack(at int) bool {
	if !h.byUs(h.events[at]) {
		return false
	}
	if next := slices.IndexFunc(h.events[at+1:], h.isOurs); next >= 0 {
		e := h.events[at+1+next]
		if h.byUs(e) && e.GetEvent() == "unlabeled" && !h.isTask(e, "unlabeled") {
			return true
		}
	}
	before := at - 1
	for before >= 0 && !h.isOurs(h.events[before]) {
		before--
	}
	if before < 0 || !h.byUs(h.events[before]) || !h.isTask(h.events[before], "unlabeled") {
		return false
	}
	for _, e := range slices.Backward(h.events[:before]) {
		if claimed := h.is(e, "labeled", h.labels.Claimed); claimed || h.isTask(e, "labeled") {
			return claimed
		}
	}
	return false
}

// isTask reports whether an event is about the label that offers work, or one that did when the issue was offered.
func (h labelHistory) isTask(e *gh.IssueEvent, event string) bool {
	name := e.GetLabel().GetName()
	return e.GetEvent() == event && (strings.EqualFold(name, h.labels.Task) || h.offers[strings.ToLower(name)])
}

// goneSince reports whether a label was taken off at some time or later, by whomever, and not put on again.
func (h labelHistory) goneSince(label string, since time.Time) bool {
	at := h.last(label)
	return h.at(at, "unlabeled") && h.since(at, since)
}

// offered is where the task label was put on last, -1 if never.
func (h labelHistory) offered() int { return h.lastly("labeled", h.labels.Task) }

// offeredBy is the id of the event that put the task label on last, 0 if none has.
func (h labelHistory) offeredBy() int64 {
	if at := h.offered(); at >= 0 {
		return h.events[at].GetID()
	}
	return 0
}

// lastLabelEvent is the last time that a label was put on an issue or taken off it, nil if never.
func (c *Client) lastLabelEvent(ctx context.Context, l gate.Lane, p place, label string) (*gh.IssueEvent, error) {
	h, err := c.labelHistory(ctx, l, p)
	if at := h.last(label); err == nil && at >= 0 {
		return h.events[at], nil
	}
	return nil, err
}
