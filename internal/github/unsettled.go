package github

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"retake/internal/github/gate"
)

// unsettledTries is how often an issue is claimed whose labels are changed meanwhile. It is left alone then:
// what changes them would do so for ever.
const unsettledTries = 3

// unsettled is an issue whose labels were changed while it was being claimed.
type unsettled struct {
	times   int
	offered int64 // the event that put the task label on last, when the issue was left alone
}

// labelsChanged is the outcome of a claim whose claimed label was taken off while the issue was still offered.
func (c *Client) labelsChanged(ctx context.Context, t thread, m marker) (ClaimResult, error) {
	u, _ := c.unsettled.get(t.key())
	if u.times++; u.times < unsettledTries {
		c.unsettled.put(t.key(), u)
		return ClaimResult{}, labelsChanging(t)
	}
	h, err := c.labelHistory(ctx, gate.Claim, t.place)
	if err == nil && h.takenOff(c.labels.Claimed) < 0 { // it has never come on, whatever GitHub said
		err = labelsChanging(t)
	}
	if err != nil {
		return ClaimResult{}, err
	}
	u.offered = h.offeredBy()
	c.unsettled.put(t.key(), u)
	why := c.leavesAlone(u)
	c.log.Warn("an issue is left alone", zap.String("issue", t.key()), zap.String("task", m.Nonce),
		zap.String("reason", why))
	return c.undo(ctx, t, m, why)
}

func labelsChanging(t thread) error {
	return &Error{
		Kind: KindTransient, Message: "the labels of " + t.key() + " have changed while it was being claimed",
		Doubtful: true,
	}
}

func (c *Client) leavesAlone(u unsettled) string {
	return fmt.Sprintf("its labels were changed while it was claimed, %d times in a row: it is left alone until the "+
		"label %s is put on again",
		u.times, c.labels.Task)
}

// leftToPeople says why an issue is left alone; empty: it is not, or somebody has offered it since.
func (c *Client) leftToPeople(ctx context.Context, t thread) (string, error) {
	u, known := c.unsettled.get(t.key())
	if !known || u.times < unsettledTries {
		return "", nil
	}
	h, err := c.labelHistory(ctx, gate.Claim, t.place)
	if err != nil || h.offeredBy() == u.offered {
		return c.leavesAlone(u), err
	}
	c.unsettled.drop(t.key())
	return "", nil
}
