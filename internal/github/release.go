package github

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"retake/internal/github/gate"
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

// releasePage is what pages/release.md shows.
type releasePage struct {
	ReleaseRequest
	Page string // of the branch
	Over bool   // the issue is closed
}

// Release ends a claim: a marker comment, which ends all older claims, then the labels. A repetition that
// finds the issue claimed anew since touches nothing.
func (c *Client) Release(ctx context.Context, req ReleaseRequest) error {
	if err := c.checkWrites("release", req.Key, zap.String("task", req.Nonce),
		zap.String("reason", req.Why)); err != nil {
		return err
	}
	t, err := c.thread(ctx, gate.Completion, req.Key)
	if err != nil {
		return err
	}
	if req.Ended == endedMerged {
		return c.endMerged(ctx, t, req)
	}
	if req.Won {
		t.adopt(c.opts.Fleet, req.Nonce)
	}
	m := marker{kind: markRelease, Fleet: c.opts.Fleet, Nonce: req.Nonce}
	if req.Reclaim {
		done, err := c.reclaimed(t, m, req.LastSeen)
		if err != nil || done {
			return err
		}
	}
	created, err := c.post(ctx, gate.Completion, t, m,
		c.page("release", releasePage{req, BranchURL(t.issue.URL, req.Branch), t.issue.State != "open"}))
	if err != nil {
		return err
	}
	if created != 0 && req.Reclaim { // somebody may have been faster, and a third one claimed since
		if t, err = c.thread(ctx, gate.Completion, req.Key); err != nil {
			return err
		}
	}
	if holder, ok := t.holder(); ok && holder.mark.Nonce != req.Nonce || created == 0 &&
		t.claimedSince(t.ownComments(m)[0].id) {
		return nil
	}
	goal := ""
	// A person has put the label on meanwhile, which is a new request; or the claim was given up before it took
	// the label off.
	if req.RestoreTask || c.isOffered(t.issue) || !req.Won && t.issue.Has(c.labels.Task) {
		goal = c.labels.Task
	}
	done := false
	if created == 0 && !t.issue.Has(c.labels.Blocked) && !t.issue.Has(c.labels.Review) {
		if done, err = c.leftAlone(ctx, gate.Completion, t, goal, t.ownComments(m)[0].at); err != nil {
			return err
		}
	}
	if !done {
		if err := c.moveLabels(ctx, gate.Completion, t, goal); err != nil {
			return err
		}
	}
	c.claims.drop(req.Key + " " + req.Nonce)
	return nil
}

// isOffered reports whether an issue carries of our labels the one that asks for work, and nothing else.
func (c *Client) isOffered(i Issue) bool {
	return i.Has(c.labels.Task) && !i.Has(c.labels.Claimed) && !i.Has(c.labels.Blocked) && !i.Has(c.labels.Review)
}

// endMerged takes our labels off and has the claim comment say that the work was merged. The comment comes
// last: its marker then says that the claim has ended, and a repetition changes nothing. The task label is left
// alone: a human has put it there for another task.
func (c *Client) endMerged(ctx context.Context, t thread, req ReleaseRequest) error {
	m := marker{kind: markClaim, Fleet: c.opts.Fleet, Nonce: req.Nonce, Ended: endedMerged}
	claims := t.ownComments(m)
	if len(claims) > 0 && claims[0].mark.Ended != "" {
		return nil
	}
	if holder, ok := t.holder(); !ok || c.isOwnClaim(t, holder, req.Nonce) {
		for _, label := range []string{c.labels.Claimed, c.labels.Blocked, c.labels.Review} {
			if err := c.dropLabel(ctx, gate.Completion, t, label); err != nil {
				return err
			}
		}
	}
	if len(claims) == 0 {
		return nil // somebody has deleted it
	}
	m.Run = claims[0].mark.Run
	_, err := c.edit(ctx, gate.Completion, t.place, claims[0], m, c.page("merged", req))
	c.claims.drop(req.Key + " " + req.Nonce)
	return err
}

// reclaimed reports whether somebody else has ended the claim already; ErrAlive if it must not be ended.
func (c *Client) reclaimed(t thread, m marker, lastSeen time.Time) (done bool, err error) {
	if len(t.ownComments(m)) > 0 {
		return false, nil // ours: the labels may be missing
	}
	if t.wasReleased(m.Nonce) {
		return true, nil
	}
	holder, ok := t.holder()
	if ok && (holder.mark.Nonce != m.Nonce || !lastSeen.IsZero() && holder.edited.After(lastSeen)) {
		return false, ErrAlive
	}
	return false, nil
}

// Stale returns whose claim comment holds an issue, and when that comment was last edited (GitHub's clock,
// whole seconds). ok is false when nobody holds it. A director edits the comment whenever the task changes its
// state or stage, so a claim whose comment is older than issue_claim_stale_seconds has nobody at work; whether
// that is so is the caller's decision.
func (c *Client) Stale(ctx context.Context, key string) (h Holder, last time.Time, ok bool, err error) {
	t, err := c.thread(ctx, gate.Reads, key)
	if err != nil {
		return Holder{}, time.Time{}, false, err
	}
	holder, ok := t.holder()
	if !ok {
		return Holder{}, time.Time{}, false, nil
	}
	return holderOf(holder), holder.edited, true, nil
}

// halfClaimed is after how long a claim that has shown the claimed label, and neither a comment nor that it
// took the task label off, has ended.
const halfClaimed = time.Minute

// Free offers an open issue again that has the claimed label and nobody's claim, if our own account put the
// label on so long ago: a claim of ours ended before its comment, or somebody deleted the comment. The task
// label comes back if we took it off. It reports whether anything was changed, and otherwise when it can be,
// zero for never. An issue that is offered still is one that a claim has not finished with: it can be within a
// minute.
func (c *Client) Free(ctx context.Context, key string, stale time.Duration) (freed bool, due time.Time, err error) {
	t, err := c.thread(ctx, gate.Reads, key)
	if err != nil {
		return false, due, err
	}
	if _, held := t.holder(); held || t.issue.State != "open" || !t.issue.Has(c.labels.Claimed) {
		return false, due, nil
	}
	h, err := c.labelHistory(ctx, gate.Reads, t.place)
	if err != nil {
		return false, due, err
	}
	at, ours := h.putOn(c.labels.Claimed)
	if !ours {
		return false, due, nil
	}
	if t.issue.Has(c.labels.Task) && h.offered() < at {
		stale = min(stale, halfClaimed)
	}
	if due = h.events[at].GetCreatedAt().Add(stale); time.Now().Before(due) {
		return false, due, nil
	}
	if err := c.checkWrites("free", key, zap.String("reason", "nobody's claim")); err != nil {
		return false, due, err
	}
	if t.tookTaskLabel(h) {
		if err := c.addLabel(ctx, gate.Completion, t, c.labels.Task); err != nil {
			return false, due, err
		}
	}
	if err := c.dropLabel(ctx, gate.Completion, t, c.labels.Claimed); err != nil {
		return false, due, err
	}
	now, err := c.thread(ctx, gate.Completion, key)
	if _, held := now.holder(); err != nil || !held {
		return err == nil, due, err
	}
	// Another director of our account has claimed it since we looked. It would take the missing label for a
	// person's doing.
	return false, time.Time{}, c.addLabel(ctx, gate.Completion, now, c.labels.Claimed)
}
