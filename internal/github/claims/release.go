package claims

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"retake/internal/github/gate"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
)

// ErrAlive is returned by a reclaim of a claim that has shown progress since it was called stale, or that is
// not the one which holds the issue now.
var ErrAlive = errors.New("github: the claim is not stale: nothing was changed")

// ReleaseRequest ends a claim.
type ReleaseRequest struct {
	Key, Nonce  string
	Why         string // one line
	RestoreTask bool   // true: anybody may claim it again; false: it was closed or taken, no label stays
	// Reclaim: the claim is stale. It may be another fleet's or credential's: Nonce is that of Stale's holder.
	Reclaim bool
	// LastSeen, of a reclaim, is the time that Stale returned: ErrAlive if the claim comment was edited since.
	// Zero: not checked.
	LastSeen time.Time
	// Ended is "" or "merged": the work was merged as PullRequest, by whom it says. Then the claim comment says
	// so, and no other is made.
	Ended       string
	Won         bool   // the claim was won: its comment may be one whose marker somebody has edited
	PullRequest int    // that has the work; 0: none
	By          string // login, "" unknown
	Taken       string // login of the person who takes over; Why is not shown then
	Branch      string // with the work so far; empty: none
	Kept        string // why newer work was not pushed, one line; empty: there is none, or it is on Branch
	Attempt     string // whose patch Kept is about
}

// ReleasePage is what pages/release.md shows.
type ReleasePage struct {
	ReleaseRequest
	Page string // of the branch
	Over bool   // the issue is closed
}

// Release ends a claim: a marker comment, which ends all older claims, then the labels. A repetition that
// finds the issue claimed anew since touches nothing.
func (c *Claims) Release(ctx context.Context, req ReleaseRequest) error {
	if err := c.conn.CheckWrites("release", req.Key, zap.String("task", req.Nonce),
		zap.String("reason", req.Why)); err != nil {
		return err
	}
	t, err := c.read.Thread(ctx, gate.Completion, req.Key)
	if err != nil {
		return err
	}
	if req.Ended == tracker.EndedMerged {
		return c.endMerged(ctx, t, req)
	}
	if req.Won {
		t.Adopt(c.read.Fleet, req.Nonce)
	}
	m := tracker.Marker{Kind: tracker.MarkRelease, Fleet: c.read.Fleet, Nonce: req.Nonce}
	if req.Reclaim {
		done, err := c.reclaimed(t, m, req.LastSeen)
		if err != nil || done {
			return err
		}
	}
	created, err := c.write.Post(ctx, gate.Completion, t, m,
		c.text.Page("release", ReleasePage{req, pages.BranchURL(t.Issue.URL, req.Branch), t.Issue.State != "open"}))
	if err != nil {
		return err
	}
	if created != 0 && req.Reclaim { // somebody may have been faster, and a third one claimed since
		if t, err = c.read.Thread(ctx, gate.Completion, req.Key); err != nil {
			return err
		}
	}
	if holder, ok := t.Holder(); ok && holder.Mark.Nonce != req.Nonce || created == 0 &&
		t.ClaimedSince(t.OwnComments(m)[0].ID) {
		return nil
	}
	goal := ""
	// A person has put the label on meanwhile, which is a new request; or the claim was given up before it took
	// the label off.
	if req.RestoreTask || t.Issue.IsOffered(c.read.Labels) || !req.Won && t.Issue.Has(c.read.Labels.Task) {
		goal = c.read.Labels.Task
	}
	done := false
	if created == 0 && !t.Issue.Has(c.read.Labels.Blocked) && !t.Issue.Has(c.read.Labels.Review) {
		if done, err = c.write.LeftAlone(ctx, gate.Completion, t, goal, t.OwnComments(m)[0].At); err != nil {
			return err
		}
	}
	if !done {
		if err := c.write.MoveLabels(ctx, gate.Completion, t, goal); err != nil {
			return err
		}
	}
	c.Forget(req.Key, req.Nonce)
	return nil
}

// endMerged takes our labels off and has the claim comment say that the work was merged. The comment comes
// last: its marker then says that the claim has ended, and a repetition changes nothing. The task label is left
// alone: a human has put it there for another task.
func (c *Claims) endMerged(ctx context.Context, t tracker.Thread, req ReleaseRequest) error {
	m := tracker.Marker{Kind: tracker.MarkClaim, Fleet: c.read.Fleet, Nonce: req.Nonce, Ended: tracker.EndedMerged}
	claims := t.OwnComments(m)
	if len(claims) > 0 && claims[0].Mark.Ended != "" {
		return nil
	}
	if holder, ok := t.Holder(); !ok || t.IsOwnClaim(c.read.Fleet, holder, req.Nonce) {
		for _, label := range []string{c.read.Labels.Claimed, c.read.Labels.Blocked, c.read.Labels.Review} {
			if err := c.write.DropLabel(ctx, gate.Completion, t, label); err != nil {
				return err
			}
		}
	}
	if len(claims) == 0 {
		return nil // somebody has deleted it
	}
	m.Run = claims[0].Mark.Run
	_, err := c.write.Edit(ctx, gate.Completion, t.Place, claims[0], m, c.text.Page("merged", req))
	c.Forget(req.Key, req.Nonce)
	return err
}

// reclaimed reports whether somebody else has ended the claim already; ErrAlive if it must not be ended.
func (c *Claims) reclaimed(t tracker.Thread, m tracker.Marker, lastSeen time.Time) (done bool, err error) {
	if len(t.OwnComments(m)) > 0 {
		return false, nil // ours: the labels may be missing
	}
	if t.WasReleased(m.Nonce) {
		return true, nil
	}
	holder, ok := t.Holder()
	if ok && (holder.Mark.Nonce != m.Nonce || !lastSeen.IsZero() && holder.Edited.After(lastSeen)) {
		return false, ErrAlive
	}
	return false, nil
}

// Stale returns whose claim comment holds an issue, and when that comment was last edited (GitHub's clock,
// whole seconds). ok is false when nobody holds it. A director edits the comment whenever the task changes its
// state or stage, so a claim whose comment is older than issue_claim_stale_seconds has nobody at work; whether
// that is so is the caller's decision.
func (c *Claims) Stale(ctx context.Context, key string) (h Holder, last time.Time, ok bool, err error) {
	t, err := c.read.Thread(ctx, gate.Reads, key)
	if err != nil {
		return Holder{}, time.Time{}, false, err
	}
	holder, ok := t.Holder()
	if !ok {
		return Holder{}, time.Time{}, false, nil
	}
	return holderOf(holder), holder.Edited, true, nil
}

// halfClaimed is after how long a claim that has shown the claimed label, and neither a comment nor that it
// took the task label off, has ended.
const halfClaimed = time.Minute

// Free offers an open issue again that has the claimed label and nobody's claim, if our own account put the
// label on so long ago: a claim of ours ended before its comment, or somebody deleted the comment. The task
// label comes back if we took it off. It reports whether anything was changed, and otherwise when it can be,
// zero for never. An issue that is offered still is one that a claim has not finished with: it can be within a
// minute.
func (c *Claims) Free(ctx context.Context, key string, stale time.Duration) (freed bool, due time.Time, err error) {
	t, err := c.read.Thread(ctx, gate.Reads, key)
	if err != nil {
		return false, due, err
	}
	if _, held := t.Holder(); held || t.Issue.State != "open" || !t.Issue.Has(c.read.Labels.Claimed) {
		return false, due, nil
	}
	h, err := c.read.LabelHistory(ctx, gate.Reads, t.Place)
	if err != nil {
		return false, due, err
	}
	at, ours := h.PutOn(c.read.Labels.Claimed)
	if !ours {
		return false, due, nil
	}
	if t.Issue.Has(c.read.Labels.Task) && h.Offered() < at {
		stale = min(stale, halfClaimed)
	}
	if due = h.Events[at].GetCreatedAt().Add(stale); time.Now().Before(due) {
		return false, due, nil
	}
	if err := c.conn.CheckWrites("free", key, zap.String("reason", "nobody's claim")); err != nil {
		return false, due, err
	}
	if tookTaskLabel(t, h) {
		if err := c.write.AddLabel(ctx, gate.Completion, t, c.read.Labels.Task); err != nil {
			return false, due, err
		}
	}
	if err := c.write.DropLabel(ctx, gate.Completion, t, c.read.Labels.Claimed); err != nil {
		return false, due, err
	}
	now, err := c.read.Thread(ctx, gate.Completion, key)
	if _, held := now.Holder(); err != nil || !held {
		return err == nil, due, err
	}
	// Another director of our account has claimed it since we looked. It would take the missing label for a
	// person's doing.
	return false, time.Time{}, c.write.AddLabel(ctx, gate.Completion, now, c.read.Labels.Claimed)
}
