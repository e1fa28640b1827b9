package claims

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/tracker"
)

// unsettledTries is the maximum number of successive claims on an issue during which its labels change. After that, the
// director leaves the issue to people. Without a limit, it could compete with another automation forever.
const unsettledTries = 3

// unsettled counts the successive claims on an issue during which its labels changed.
type unsettled struct {
	times   int
	offered int64 // id of the last event that added the task label before we gave up
}

// labelsChanged returns the outcome of a claim after another client removed the claimed label but not the task label.
func (c *Claims) labelsChanged(ctx context.Context, t tracker.Thread, m tracker.Marker) (Result, error) {
	u, _ := c.unsettled.Get(t.Key())
	if u.times++; u.times < unsettledTries {
		c.unsettled.Put(t.Key(), u)
		return Result{}, labelsChanging(t)
	}
	h, err := c.read.LabelHistory(ctx, gate.Claim, t.Place)
	if err == nil && h.TakenOff(c.read.Labels.Claimed) < 0 { // the label was not removed, so GitHub never added it
		err = labelsChanging(t)
	}
	if err != nil {
		return Result{}, err
	}
	u.offered = h.OfferedBy()
	c.unsettled.Put(t.Key(), u)
	why := c.leavesAlone(u)
	c.conn.Log.Warn("issue skipped", zap.String("issue", t.Key()), zap.String("task", m.Nonce),
		zap.String("reason", why))
	return c.undo(ctx, t, m, why)
}

func labelsChanging(t tracker.Thread) error {
	return &api.Error{
		Kind: api.KindTransient, Message: "the labels of " + t.Key() + " changed during the claim",
		Doubtful: true,
	}
}

func (c *Claims) leavesAlone(u unsettled) string {
	return fmt.Sprintf("its labels changed during %d claims in a row: to have Retake claim it, add the label %s again",
		u.times, c.read.Labels.Task)
}

// leftToPeople returns the reason if the director must not claim an issue after unsettledTries, or "". If the task
// label was added again since then, the director may claim the issue.
func (c *Claims) leftToPeople(ctx context.Context, t tracker.Thread) (string, error) {
	u, known := c.unsettled.Get(t.Key())
	if !known || u.times < unsettledTries {
		return "", nil
	}
	h, err := c.read.LabelHistory(ctx, gate.Claim, t.Place)
	if err != nil || h.OfferedBy() == u.offered {
		return c.leavesAlone(u), err
	}
	c.unsettled.Drop(t.Key())
	return "", nil
}
