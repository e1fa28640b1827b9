package github

import (
	"context"
	"errors"
	"time"
)

// ErrAlive is returned by a reclaim of a claim that has shown progress since it was called stale, or that is not the one
// which holds the issue now.
var ErrAlive = errors.New("github: the claim is not stale: nothing was changed")

// Stale tells whose claim comment holds an issue, and when that comment was last edited (GitHub's clock, whole seconds). ok is false
// when nobody holds it. A director edits the comment whenever the task changes its state or stage, so a claim whose
// comment is older than issue_claim_stale_seconds has nobody at work; whether that is so is the caller's decision.
func (c *Client) Stale(ctx context.Context, key string) (h Holder, last time.Time, ok bool, err error) {
	t, err := c.thread(ctx, laneReads, key)
	if err != nil {
		return Holder{}, time.Time{}, false, err
	}
	held, ok := t.holder()
	if !ok {
		return Holder{}, time.Time{}, false, nil
	}
	return holderOf(held), held.edited, true, nil
}
