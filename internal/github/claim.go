package github

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"retake/internal/github/gate"
)

// Outcome of a claim.
type Outcome string

// The closed list of outcomes.
const (
	Won         Outcome = "won"          // the issue is ours: labels, comment and read-back agree
	Lost        Outcome = "lost"         // somebody else holds it: ClaimResult.Winner
	NotEligible Outcome = "not_eligible" // closed, a pull request, not labelled as work, blocked or in review
)

// ClaimRequest asks for an issue. The same request again, after a crash or an error, goes on where the last one
// stopped; for a claim that was won already it restores the claimed label, which is how a task goes on after a
// human unblocked it.
type ClaimRequest struct {
	Key   string
	Nonce string // 8 characters of [a-z0-9], once per claim
	RunID string // the director's run; for people who read the marker
	// Unblock: a human has answered, or the work in review needs more, so the blocked or review label comes
	// off, if this very claim holds the issue.
	Unblock bool
	// Answers, with Unblock, is how many answers the claim follows. A question of ours that was asked after
	// that many or more stays.
	Answers int
}

// Holder is whose claim holds an issue.
type Holder struct {
	Fleet, Nonce, Login string
}

// ClaimResult is the outcome of a claim.
type ClaimResult struct {
	Outcome Outcome
	Offered bool   // the issue asks for work all the same: it would look like work again
	Winner  Holder // lost only
	Why     string // not_eligible only
}

// Claim runs the claim protocol: add the claimed label, post the claim comment, read back, remove the task
// label. In this order, because a claim may stop anywhere for good: the issue always shows a label, and one
// without the task label has a comment that says whose it is. The loser deletes its own comment and leaves the
// labels as the winner has them.
func (c *Client) Claim(ctx context.Context, req ClaimRequest) (ClaimResult, error) {
	if err := c.checkWrites("claim", req.Key, zap.String("task", req.Nonce)); err != nil {
		return ClaimResult{}, err
	}
	ctx = c.Gate.InOneGo(ctx)
	t, err := c.thread(ctx, gate.Claim, req.Key)
	if err != nil {
		return ClaimResult{}, err
	}
	m := marker{kind: markClaim, Fleet: c.opts.Fleet, Nonce: req.Nonce, Run: req.RunID}
	if _, err := m.line(); err != nil {
		return ClaimResult{}, err
	}
	if req.Unblock {
		t.adopt(c.opts.Fleet, req.Nonce)
	}
	if holder, ok := t.holder(); ok && !c.isOwnClaim(t, holder, req.Nonce) {
		return c.withdraw(ctx, t, m, ClaimResult{Outcome: Lost, Winner: holderOf(holder)})
	}
	if req.Unblock && c.asksNewer(t, req) { // nothing is undone: the claim and the question are our successor's now
		return ClaimResult{Outcome: NotEligible, Why: "a newer question waits for a human"}, nil
	}
	why, err := c.ineligible(ctx, t, req)
	if err != nil {
		return ClaimResult{}, err
	}
	if why != "" {
		return c.undo(ctx, t, m, why)
	}
	old := []string{c.labels.Review}
	if req.Unblock {
		old = append(old, c.labels.Blocked)
	}
	text := c.page("claim", req.Nonce)
	if t, err = c.mutate(ctx, gate.Claim, t, bundle{on: c.labels.Claimed, off: old, mark: m, text: text}); err != nil {
		return ClaimResult{}, err
	}
	if err := c.addLabel(ctx, gate.Claim, t, c.labels.Claimed); err != nil {
		return ClaimResult{}, err
	}
	for _, label := range old {
		if err := c.dropLabel(ctx, gate.Claim, t, label); err != nil {
			return ClaimResult{}, err
		}
	}
	if _, err := c.post(ctx, gate.Claim, t, m, text); err != nil {
		return ClaimResult{}, err
	}
	return c.verify(ctx, t.place, req, m)
}

// isOwnClaim reports whether a claim comment belongs to this claim.
func (c *Client) isOwnClaim(t thread, r comment, nonce string) bool {
	return strings.EqualFold(r.author, t.self) && r.mark.Fleet == c.opts.Fleet && r.mark.Nonce == nonce
}

// asksNewer reports whether the claim's latest question was asked when as many answers were known as this
// request follows, or more: then the request is from before that question. A question's block is named
// "<attempt>" or, after n answers, "<attempt>.<n>".
func (c *Client) asksNewer(t thread, req ClaimRequest) bool {
	questions := t.ownComments(marker{kind: markBlocked, Fleet: c.opts.Fleet, Nonce: req.Nonce})
	if len(questions) == 0 {
		return false
	}
	_, after, _ := strings.Cut(questions[len(questions)-1].mark.Attempt, ".")
	known, _ := strconv.Atoi(after) // nothing: asked before any answer
	return known >= req.Answers
}

// verify reads back what the claim has written and what everybody else has.
func (c *Client) verify(ctx context.Context, p place, req ClaimRequest, m marker) (ClaimResult, error) {
	t, err := c.thread(ctx, gate.Claim, p.key())
	if err != nil {
		return ClaimResult{}, err
	}
	if req.Unblock {
		t.adopt(c.opts.Fleet, req.Nonce)
	}
	holder, ok := t.holder()
	switch {
	case ok && !c.isOwnClaim(t, holder, req.Nonce):
		return c.withdraw(ctx, t, m, ClaimResult{Outcome: Lost, Winner: holderOf(holder)})
	case !ok && len(t.ownComments(m)) == 0:
		return ClaimResult{}, transient("our claim comment on "+p.key()+" cannot be read back yet", nil)
	case !ok:
		return c.withdraw(ctx, t, m, ClaimResult{Outcome: NotEligible, Why: "released while it was being claimed"})
	}
	if why := c.unclaimable(t.issue); why != "" {
		return c.undo(ctx, t, m, why)
	}
	if !t.issue.Has(c.labels.Claimed) {
		if t.issue.Has(c.labels.Task) {
			return c.labelsChanged(ctx, t, m)
		}
		off, err := c.claimTakenOff(ctx, t, m)
		if err == nil && !off {
			err = labelsChanging(t)
		}
		if err != nil {
			return ClaimResult{}, err
		}
		return c.undo(ctx, t, m, c.claimRemoved())
	}
	for _, again := range t.ownComments(m)[1:] { // a lost answer, and a list that lagged behind
		if err := c.remove(ctx, gate.Claim, t, again); err != nil {
			return ClaimResult{}, err
		}
	}
	return c.takeTask(ctx, t, m)
}

// takeTask removes the task label, with which the claim is won. If the claimed label has been taken off
// meanwhile, the issue was still offered: it is so again.
func (c *Client) takeTask(ctx context.Context, t thread, m marker) (ClaimResult, error) {
	for _, name := range t.issue.named(c.labels.Task) {
		left, err := c.removeLabel(ctx, gate.Claim, t, name)
		if err != nil {
			return ClaimResult{}, err
		}
		if left == nil || left.Has(c.labels.Claimed) {
			continue
		}
		t.issue = *left
		if err := c.addLabel(ctx, gate.Claim, t, c.labels.Task); err != nil {
			return ClaimResult{}, err
		}
		t.issue.Labels = append(t.issue.Labels, c.labels.Task)
		return c.labelsChanged(ctx, t, m)
	}
	c.unsettled.drop(t.key())
	return ClaimResult{Outcome: Won}, nil
}

// What a claim takes its own issue back from, when it is told to.
const (
	waitsForHuman = "blocked: waits for a human"
	inReview      = "in review"
)

// unclaimable returns why nobody can claim an issue, "" if it can be claimed.
func (c *Client) unclaimable(i Issue) string {
	switch {
	case i.IsPullRequest:
		return "a pull request"
	case i.State != "open":
		return "closed"
	case i.Has(c.labels.Blocked):
		return waitsForHuman
	case i.Has(c.labels.Review) && !i.Has(c.labels.Task):
		return inReview
	}
	return ""
}

// ineligible says why we may not claim an issue that nobody else holds. Without the task label we may if we
// hold it already, if somebody stopped between labels and comment (the comment then decides), or if it was our
// own credential that took the label off, which means that a claim stopped between its two labels.
func (c *Client) ineligible(ctx context.Context, t thread, req ClaimRequest) (string, error) {
	holder, ok := t.holder()
	ok = ok && c.isOwnClaim(t, holder, req.Nonce)
	over := t.wasReleased(req.Nonce) || !ok &&
		len(t.ownComments(marker{kind: markClaim, Fleet: c.opts.Fleet, Nonce: req.Nonce})) > 0
	takesBack := req.Unblock && !over // also if somebody has deleted the comment of the claim, which is written again
	if why := c.unclaimable(t.issue); why != "" && (!takesBack || why != waitsForHuman && why != inReview) {
		return why, nil
	}
	if ok || takesBack {
		return c.takenBack(ctx, t, req)
	}
	if over {
		return "this claim has ended", nil
	}
	if t.issue.Has(c.labels.Task) || t.issue.Has(c.labels.Claimed) {
		return c.leftToPeople(ctx, t)
	}
	h, err := c.labelHistory(ctx, gate.Claim, t.place)
	if err != nil || t.tookTaskLabel(h) {
		return "", err
	}
	return "the label " + c.labels.Task + " is not there", nil
}

// takenBack says that somebody has taken the claimed label off behind an earlier try of this claim, "" if not.
// An issue that still shows a label of ours is not: the claim goes on. What happened to the other labels after
// it was an answer.
func (c *Client) takenBack(ctx context.Context, t thread, req ClaimRequest) (string, error) {
	if slices.ContainsFunc(c.labels.others(""), t.issue.Has) {
		return "", nil
	}
	h, err := c.labelHistory(ctx, gate.Claim, t.place)
	at := h.takenOff(c.labels.Claimed)
	own := t.ownComments(marker{kind: markClaim, Fleet: c.opts.Fleet, Nonce: req.Nonce})
	if err != nil || at < max(h.offered(), h.last(c.labels.Blocked), h.last(c.labels.Review), 0) || len(own) == 0 ||
		!h.since(at, own[0].at) {
		return "", err
	}
	return c.claimRemoved(), nil
}

// claimRemoved is why a claim ends whose label somebody takes off.
func (c *Client) claimRemoved() string {
	return "the label " + c.labels.Claimed + " was removed while it was being claimed"
}

// tookTaskLabel reports whether we were the last to touch the issue's task label, removing it, after any claim
// that has ended.
func (t thread) tookTaskLabel(h labelHistory) bool {
	at := h.last(h.labels.Task)
	if at < 0 || h.events[at].GetEvent() != "unlabeled" || !h.byUs(h.events[at]) {
		return false
	}
	return !slices.ContainsFunc(t.comments, func(r comment) bool {
		ended := r.mark != nil && (r.mark.kind == markRelease || r.mark.kind == markClaim && r.mark.Ended != "")
		return ended && !r.at.Before(h.events[at].GetCreatedAt().Time)
	})
}

// claimTakenOff reports whether a person has taken the claimed label off since the issue was offered. By our
// own account that counts only after the claim's comment: before it another director of the same account may
// have taken the claim for one that has ended (see Free).
func (c *Client) claimTakenOff(ctx context.Context, t thread, m marker) (bool, error) {
	h, err := c.labelHistory(ctx, gate.Claim, t.place)
	at := h.takenOff(c.labels.Claimed)
	if err != nil || at < 0 || at < h.offered() {
		return false, err
	}
	own := t.ownComments(m)
	return !h.byUs(h.events[at]) || len(own) > 0 && !h.events[at].GetCreatedAt().Before(own[0].at), nil
}

// withdraw deletes our comments of this claim, if any, and touches nothing else. A comment that has reported on
// work is no mere claim any more and stays.
func (c *Client) withdraw(ctx context.Context, t thread, m marker, result ClaimResult) (ClaimResult, error) {
	result.Offered = c.isOffered(t.issue)
	for _, r := range t.ownComments(m) {
		if !c.isFreshClaim(r) {
			continue
		}
		if err := c.remove(ctx, gate.Claim, t, r); err != nil {
			return ClaimResult{}, err
		}
	}
	return result, nil
}

// isFreshClaim reports whether a claim comment still has the text that Claim wrote.
func (c *Client) isFreshClaim(r comment) bool {
	fresh, err := withMarker(*r.mark, c.page("claim", r.mark.Nonce))
	return err == nil && sameText(fresh, r.body)
}

// undo ends a claim whose issue is not to be worked on. If we hold the issue with nothing but a fresh claim,
// the claimed label is ours as well. It goes first: with the comment still there a repetition finds its way
// back here.
func (c *Client) undo(ctx context.Context, t thread, m marker, why string) (ClaimResult, error) {
	if holder, ok := t.holder(); ok && c.isOwnClaim(t, holder, m.Nonce) && c.isFreshClaim(holder) {
		if err := c.dropLabel(ctx, gate.Claim, t, c.labels.Claimed); err != nil {
			return ClaimResult{}, err
		}
	}
	return c.withdraw(ctx, t, m, ClaimResult{Outcome: NotEligible, Why: why})
}

func holderOf(r comment) Holder {
	return Holder{Fleet: r.mark.Fleet, Nonce: r.mark.Nonce, Login: r.author}
}
