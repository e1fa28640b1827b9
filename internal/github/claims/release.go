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

// ErrAlive is returned for a reclaim if the claim comment was edited after LastSeen, or if another claim holds the
// issue.
var ErrAlive = errors.New("github: the claim is not stale")

// ReleaseRequest ends a claim.
type ReleaseRequest struct {
	Key, Nonce  string
	Why         string // one line
	RestoreTask bool   // add the task label, so that the issue can be claimed again
	// Reclaim ends a stale claim, possibly of another fleet or credential. Nonce must then be the nonce of Stale's
	// holder.
	Reclaim bool
	// LastSeen, for a reclaim, is the time that Stale returned. Release returns ErrAlive if the claim comment was
	// edited later. Zero disables the check.
	LastSeen time.Time
	// Ended is "" or "merged". Merged means that the work was merged as PullRequest. The claim comment then shows who
	// merged it, and Release does not write a second comment.
	Ended       string
	Won         bool   // the claim was won, so its comment counts even with an edited marker
	PullRequest int    // existing pull request with the work, or 0
	By          string // login of the person who merged the work, or "" if unknown
	Taken       string // login of the person who takes over the issue, or ""; the comment then omits Why
	Branch      string // branch with the work so far, if any
	Kept        string // why newer work was not pushed, one line; empty if Branch has all work
	Attempt     string // attempt that produced the patch in Kept
}

// ReleasePage is the data for pages/release.md.
type ReleasePage struct {
	ReleaseRequest
	Page string // URL of the branch
	Over bool   // the issue is closed
}

// Release ends a claim. It writes a marker comment, which ends all older claims, and then changes the labels. A
// repeated call has no effect if the issue has a newer claim.
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
	if created != 0 && req.Reclaim { // another director may have been faster
		if t, err = c.read.Thread(ctx, gate.Completion, req.Key); err != nil {
			return err
		}
	}
	if holder, ok := t.Holder(); ok && holder.Mark.Nonce != req.Nonce || created == 0 &&
		t.ClaimedSince(t.OwnComments(m)[0].ID) {
		return nil
	}
	goal := ""
	// Keep the task label if a person added it again, or if the claim ended before it removed the label.
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

// endMerged removes our labels and reports the merge in the claim comment. It edits the comment last, because the new
// marker ends the claim, after which a repeated call does nothing. It keeps the task label, because a person must have
// added it for a new task.
func (c *Claims) endMerged(ctx context.Context, t tracker.Thread, req ReleaseRequest) error {
	m := tracker.Marker{Kind: tracker.MarkClaim, Fleet: c.read.Fleet, Nonce: req.Nonce, Ended: tracker.EndedMerged}
	claims := t.OwnComments(m)
	if len(claims) > 0 && claims[0].Mark.Ended != "" {
		return nil
	}
	if holder, ok := t.Holder(); !ok || t.IsOwnClaim(c.read.Fleet, holder, req.Nonce) {
		ours := c.read.Labels.Others(c.read.Labels.Task)
		if err := c.write.ChangeLabels(ctx, gate.Completion, t, "", ours...); err != nil {
			return err
		}
	}
	if len(claims) == 0 {
		return nil // the comment was deleted
	}
	m.Run = claims[0].Mark.Run
	_, err := c.write.Edit(ctx, gate.Completion, t.Place, claims[0], m, c.text.Page("merged", req))
	c.Forget(req.Key, req.Nonce)
	return err
}

// reclaimed reports whether another director has already ended the claim. It returns ErrAlive if the caller must not
// end it.
func (c *Claims) reclaimed(t tracker.Thread, m tracker.Marker, lastSeen time.Time) (done bool, err error) {
	if len(t.OwnComments(m)) > 0 {
		return false, nil // we released it, but may have crashed before the label changes
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

// Stale returns the holder of an issue and the time of the last edit of its claim comment, in whole seconds of GitHub's
// clock. ok is false if the issue is not claimed. A director edits the comment whenever the task's state or stage
// changes, so the claim is probably abandoned if the last edit is older than issue_claim_stale_seconds.
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

// halfClaimed is the age after which an incomplete claim counts as ended. Such a claim has added the claimed label, but
// has not written its comment or removed the task label.
const halfClaimed = time.Minute

// Free removes the claimed label from an open issue without a claim, once stale has passed since our account added the
// label. If the issue still has the task label, Free waits for at most halfClaimed. Such a claimed label is left over
// if a claim was interrupted before it posted its comment, or if the comment was deleted. Free adds the task label if
// our account removed it. freed reports whether Free changed the issue. Otherwise, due is the time from which a later
// call may change it, or zero if later calls must not change it.
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
	if err := c.conn.CheckWrites("free", key, zap.String("reason", "claimed label without a claim")); err != nil {
		return false, due, err
	}
	offer := ""
	if tookTaskLabel(t, h) {
		offer = c.read.Labels.Task
	}
	if err := c.write.ChangeLabels(ctx, gate.Completion, t, offer, c.read.Labels.Claimed); err != nil {
		return false, due, err
	}
	now, err := c.read.Thread(ctx, gate.Completion, key)
	if _, held := now.Holder(); err != nil || !held {
		return err == nil, due, err
	}
	// Another director with our account has claimed the issue in the meantime. Restore the label, because that director
	// would conclude that a person removed it.
	return false, time.Time{}, c.write.AddLabel(ctx, gate.Completion, now, c.read.Labels.Claimed)
}
