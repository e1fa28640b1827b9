package claims

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
)

// Claims makes claims, updates their comments, and ends them.
type Claims struct {
	conn      *api.Conn
	read      *tracker.Reader
	write     *tracker.Writer
	text      *pages.Text
	claims    api.Memory[claimComment] // cache, by issue and nonce
	unsettled api.Memory[unsettled]    // by issue
}

// New returns a Claims.
func New(conn *api.Conn, read *tracker.Reader, write *tracker.Writer, text *pages.Text) *Claims {
	return &Claims{
		conn: conn, read: read, write: write, text: text,
		claims: api.NewMemory[claimComment](api.Remembered), unsettled: api.NewMemory[unsettled](api.Remembered),
	}
}

// Outcome is the result of an attempt to claim an issue.
type Outcome string

// All outcomes of a claim.
const (
	Won         Outcome = "won"          // this claim holds the issue: it has read back its labels and its comment
	Lost        Outcome = "lost"         // another claim holds the issue; see Result.Winner
	NotEligible Outcome = "not_eligible" // closed, a pull request, not labelled as work, blocked or in review
)

// Request asks for a claim on an issue. After a crash or an error, the caller repeats the request, which then continues
// the interrupted claim. If the claim was already won, the request restores the claimed label, so that a task can
// continue after a person has unblocked it.
type Request struct {
	Key   string
	Nonce string // 8 characters of [a-z0-9], unique per claim
	RunID string // the director's run; for people who read the marker
	// Unblock removes the blocked or review label if this claim holds the issue. The caller sets it after a human's
	// answer, or if the work in review needs another attempt.
	Unblock bool
	// Answers is the number of answers that the task had received when Unblock was set. If the task has asked another
	// question since then, Claim returns NotEligible without a change.
	Answers int
}

// Holder identifies the claim that holds an issue.
type Holder struct {
	Fleet, Nonce, Login string
}

// Result is the outcome of a claim.
type Result struct {
	Outcome Outcome
	Offered bool   // the issue still has the task label, so a poll returns it again
	Winner  Holder // lost only
	Why     string // not_eligible only
}

// Claim runs the claim protocol: add the claimed label, post the claim comment, read the issue back, remove the task
// label. The order matters because a crash may interrupt Claim after any step. At every step, the issue has a label,
// and an issue without the task label has a comment that names its owner. If another claim holds the issue, Claim
// deletes its own comment and does not change the labels.
func (c *Claims) Claim(ctx context.Context, req Request) (Result, error) {
	if err := c.conn.CheckWrites("claim", req.Key, zap.String("task", req.Nonce)); err != nil {
		return Result{}, err
	}
	ctx = c.conn.Gate.InOneGo(ctx)
	t, err := c.read.Thread(ctx, gate.Claim, req.Key)
	if err != nil {
		return Result{}, err
	}
	m := tracker.Marker{Kind: tracker.MarkClaim, Fleet: c.read.Fleet, Nonce: req.Nonce, Run: req.RunID}
	if _, err := m.Line(); err != nil {
		return Result{}, err
	}
	if req.Unblock {
		t.Adopt(c.read.Fleet, req.Nonce)
	}
	if holder, ok := t.Holder(); ok && !t.IsOwnClaim(c.read.Fleet, holder, req.Nonce) {
		return c.withdraw(ctx, t, m, Result{Outcome: Lost, Winner: holderOf(holder)})
	}
	if req.Unblock && c.asksNewer(t, req) { // keep the labels, because they belong to the newer question
		return Result{Outcome: NotEligible, Why: "a newer question is waiting for a person to answer"}, nil
	}
	why, err := c.ineligible(ctx, t, req)
	if err != nil {
		return Result{}, err
	}
	if why != "" {
		return c.undo(ctx, t, m, why)
	}
	old := []string{c.read.Labels.Review}
	if req.Unblock {
		old = append(old, c.read.Labels.Blocked)
	}
	text := c.text.Page("claim", req.Nonce)
	if t, err = c.write.Mutate(ctx, gate.Claim, t,
		tracker.Bundle{On: c.read.Labels.Claimed, Off: old, Mark: m, Text: text}); err != nil {
		return Result{}, err
	}
	if err := c.write.AddLabel(ctx, gate.Claim, t, c.read.Labels.Claimed); err != nil {
		return Result{}, err
	}
	for _, label := range old {
		if err := c.write.DropLabel(ctx, gate.Claim, t, label); err != nil {
			return Result{}, err
		}
	}
	if _, err := c.write.Post(ctx, gate.Claim, t, m, text); err != nil {
		return Result{}, err
	}
	return c.verify(ctx, t.Place, req, m)
}

// asksNewer reports whether the claim asked its latest question after at least req.Answers answers, so that the request
// is older than the question. Marker.Attempt of a question is "<attempt>" or, after n answers, "<attempt>.<n>".
func (c *Claims) asksNewer(t tracker.Thread, req Request) bool {
	questions := t.OwnComments(tracker.Marker{Kind: tracker.MarkBlocked, Fleet: c.read.Fleet, Nonce: req.Nonce})
	if len(questions) == 0 {
		return false
	}
	_, after, _ := strings.Cut(questions[len(questions)-1].Mark.Attempt, ".")
	known, _ := strconv.Atoi(after) // without a suffix, the question precedes all answers
	return known >= req.Answers
}

// verify reads the issue again to find out whether this claim holds it, and then completes or withdraws the claim.
func (c *Claims) verify(ctx context.Context, p api.Place, req Request, m tracker.Marker) (Result, error) {
	t, err := c.read.Thread(ctx, gate.Claim, p.Key())
	if err != nil {
		return Result{}, err
	}
	if req.Unblock {
		t.Adopt(c.read.Fleet, req.Nonce)
	}
	holder, ok := t.Holder()
	switch {
	case ok && !t.IsOwnClaim(c.read.Fleet, holder, req.Nonce):
		return c.withdraw(ctx, t, m, Result{Outcome: Lost, Winner: holderOf(holder)})
	case !ok && len(t.OwnComments(m)) == 0:
		return Result{}, api.Transient("our claim comment on "+p.Key()+" cannot be read back yet", nil)
	case !ok:
		return c.withdraw(ctx, t, m, Result{Outcome: NotEligible, Why: "released during the claim"})
	}
	if why := c.unclaimable(t.Issue); why != "" {
		return c.undo(ctx, t, m, why)
	}
	if !t.Issue.Has(c.read.Labels.Claimed) {
		if t.Issue.Has(c.read.Labels.Task) {
			return c.labelsChanged(ctx, t, m)
		}
		off, err := c.claimTakenOff(ctx, t, m)
		if err == nil && !off {
			err = labelsChanging(t)
		}
		if err != nil {
			return Result{}, err
		}
		return c.undo(ctx, t, m, c.claimRemoved())
	}
	for _, again := range t.OwnComments(m)[1:] { // duplicates, which a lost answer can cause
		if err := c.write.Remove(ctx, gate.Claim, t, again); err != nil {
			return Result{}, err
		}
	}
	return c.takeTask(ctx, t, m)
}

// takeTask removes the task label, which completes the claim. If another client removed the claimed label before that,
// takeTask adds the task label again.
func (c *Claims) takeTask(ctx context.Context, t tracker.Thread, m tracker.Marker) (Result, error) {
	now, err := c.write.Mutate(ctx, gate.Claim, t, tracker.Bundle{Off: []string{c.read.Labels.Task}})
	if err != nil {
		return Result{}, err
	}
	if !now.Issue.Has(c.read.Labels.Task) && !now.Issue.Has(c.read.Labels.Claimed) {
		// Offer the issue again if another account removed the claimed label. If our own account did, its owner may
		// have removed both labels by hand. The next poll then ends the claim.
		h, err := c.read.LabelHistory(ctx, gate.Claim, t.Place)
		if err != nil {
			return Result{}, err
		}
		at := h.Last(c.read.Labels.Claimed)
		if tookTaskLabel(now, h) && h.At(at, "unlabeled") && !h.ByUs(h.Events[at]) {
			return c.offerAgain(ctx, now, m)
		}
	}
	for _, name := range now.Issue.Named(c.read.Labels.Task) {
		left, err := c.write.RemoveLabel(ctx, gate.Claim, now, name)
		if err != nil {
			return Result{}, err
		}
		if left != nil && !left.Has(c.read.Labels.Claimed) {
			now.Issue = *left
			return c.offerAgain(ctx, now, m)
		}
	}
	c.unsettled.Drop(t.Key())
	return Result{Outcome: Won}, nil
}

// offerAgain adds the task label that takeTask has removed, and returns the outcome of the claim.
func (c *Claims) offerAgain(ctx context.Context, t tracker.Thread, m tracker.Marker) (Result, error) {
	if err := c.write.AddLabel(ctx, gate.Claim, t, c.read.Labels.Task); err != nil {
		return Result{}, err
	}
	t.Issue.Labels = append(t.Issue.Labels, c.read.Labels.Task)
	return c.labelsChanged(ctx, t, m)
}

// Issue states that only Request.Unblock can end, and only for the claim that holds the issue.
const (
	waitsForHuman = "blocked: waiting for a person"
	inReview      = "in review"
)

// unclaimable returns the state that prevents any claim on an issue, or "".
func (c *Claims) unclaimable(i tracker.Issue) string {
	switch {
	case i.IsPullRequest:
		return "a pull request"
	case i.State != "open":
		return "closed"
	case i.Has(c.read.Labels.Blocked):
		return waitsForHuman
	case i.Has(c.read.Labels.Review) && !i.Has(c.read.Labels.Task):
		return inReview
	}
	return ""
}

// ineligible returns the reason that prevents this claim on an issue, or "". The issue must not have another holder. An
// issue without the task label is eligible in three cases:
//
//   - This claim already holds it.
//   - It has the claimed label, so an earlier claim stopped before its comment. The comments then decide.
//   - Our account removed the task label, so an earlier claim stopped while it changed the labels.
func (c *Claims) ineligible(ctx context.Context, t tracker.Thread, req Request) (string, error) {
	holder, ok := t.Holder()
	ok = ok && t.IsOwnClaim(c.read.Fleet, holder, req.Nonce)
	over := t.WasReleased(req.Nonce) || !ok &&
		len(t.OwnComments(tracker.Marker{Kind: tracker.MarkClaim, Fleet: c.read.Fleet, Nonce: req.Nonce})) > 0
	takesBack := req.Unblock && !over // even if its comment is missing; Claim then writes it again
	if why := c.unclaimable(t.Issue); why != "" && (!takesBack || why != waitsForHuman && why != inReview) {
		return why, nil
	}
	if ok || takesBack {
		return c.takenBack(ctx, t, req)
	}
	if over {
		return "this claim has already ended", nil
	}
	if t.Issue.Has(c.read.Labels.Task) || t.Issue.Has(c.read.Labels.Claimed) {
		return c.leftToPeople(ctx, t)
	}
	h, err := c.read.LabelHistory(ctx, gate.Claim, t.Place)
	if err != nil || tookTaskLabel(t, h) {
		return "", err
	}
	return "the label " + c.read.Labels.Task + " is missing", nil
}

// takenBack returns a reason if a person removed the claimed label after the comment of this claim was written, or "".
// If the issue still has one of our labels, or if one of them was changed after the removal, the claim continues.
func (c *Claims) takenBack(ctx context.Context, t tracker.Thread, req Request) (string, error) {
	if slices.ContainsFunc(c.read.Labels.Others(""), t.Issue.Has) {
		return "", nil
	}
	h, err := c.read.LabelHistory(ctx, gate.Claim, t.Place)
	at := h.TakenOff(c.read.Labels.Claimed)
	own := t.OwnComments(tracker.Marker{Kind: tracker.MarkClaim, Fleet: c.read.Fleet, Nonce: req.Nonce})
	if err != nil || at < max(h.Offered(), h.Last(c.read.Labels.Blocked), h.Last(c.read.Labels.Review), 0) ||
		len(own) == 0 ||
		!h.Since(at, own[0].At) {
		return "", err
	}
	return c.claimRemoved(), nil
}

// claimRemoved returns the reason for ending a claim after a person removed its label.
func (c *Claims) claimRemoved() string {
	return "the label " + c.read.Labels.Claimed + " was removed during the claim"
}

// tookTaskLabel reports whether our account removed the task label in the last change to it, and all ended claims on
// the issue ended earlier.
func tookTaskLabel(t tracker.Thread, h tracker.LabelHistory) bool {
	at := h.Last(h.Labels.Task)
	if at < 0 || h.Events[at].GetEvent() != "unlabeled" || !h.ByUs(h.Events[at]) {
		return false
	}
	return !slices.ContainsFunc(t.Comments, func(r tracker.Comment) bool {
		ended := r.Mark != nil && (r.Mark.Kind == tracker.MarkRelease || r.Mark.Kind == tracker.MarkClaim &&
			r.Mark.Ended != "")
		return ended && !r.At.Before(h.Events[at].GetCreatedAt().Time)
	})
}

// claimTakenOff reports whether a person has removed the claimed label since the issue was offered. A removal by our
// account counts only if it is newer than the claim comment. Before that, another director with our account may have
// removed the label because the claim looked abandoned (see Free).
func (c *Claims) claimTakenOff(ctx context.Context, t tracker.Thread, m tracker.Marker) (bool, error) {
	h, err := c.read.LabelHistory(ctx, gate.Claim, t.Place)
	at := h.TakenOff(c.read.Labels.Claimed)
	if err != nil || at < 0 || at < h.Offered() {
		return false, err
	}
	own := t.OwnComments(m)
	return !h.ByUs(h.Events[at]) || len(own) > 0 && !h.Events[at].GetCreatedAt().Before(own[0].At), nil
}

// withdraw deletes the comments of this claim and keeps the labels. It does not delete a comment that shows progress.
func (c *Claims) withdraw(ctx context.Context, t tracker.Thread, m tracker.Marker, result Result) (Result, error) {
	result.Offered = t.Issue.IsOffered(c.read.Labels)
	for _, r := range t.OwnComments(m) {
		if !c.isFreshClaim(r) {
			continue
		}
		if err := c.write.Remove(ctx, gate.Claim, t, r); err != nil {
			return Result{}, err
		}
	}
	return result, nil
}

// isFreshClaim reports whether a claim comment still has the text that Claim wrote.
func (c *Claims) isFreshClaim(r tracker.Comment) bool {
	fresh, err := tracker.WithMarker(*r.Mark, c.text.Page("claim", r.Mark.Nonce))
	return err == nil && tracker.SameText(fresh, r.Body)
}

// undo ends a claim on an issue that agents must not work on. If the claim is fresh, it also added the claimed label,
// so undo removes the label. It does this before it deletes the comment, because a repeated undo needs the comment.
func (c *Claims) undo(ctx context.Context, t tracker.Thread, m tracker.Marker, why string) (Result, error) {
	if holder, ok := t.Holder(); ok && t.IsOwnClaim(c.read.Fleet, holder, m.Nonce) && c.isFreshClaim(holder) {
		if err := c.write.ChangeLabels(ctx, gate.Claim, t, "", c.read.Labels.Claimed); err != nil {
			return Result{}, err
		}
	}
	return c.withdraw(ctx, t, m, Result{Outcome: NotEligible, Why: why})
}

func holderOf(r tracker.Comment) Holder {
	return Holder{Fleet: r.Mark.Fleet, Nonce: r.Mark.Nonce, Login: r.Author}
}
