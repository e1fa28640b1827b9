package claims

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/tracker"
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
func (c *Claims) labelsChanged(ctx context.Context, t tracker.Thread, m tracker.Marker) (Result, error) {
	u, _ := c.unsettled.Get(t.Key())
	if u.times++; u.times < unsettledTries {
		c.unsettled.Put(t.Key(), u)
		return Result{}, labelsChanging(t)
	}
	h, err := c.read.LabelHistory(ctx, gate.Claim, t.Place)
	if err == nil && h.TakenOff(c.read.Labels.Claimed) < 0 { // it has never come on, whatever GitHub said
		err = labelsChanging(t)
	}
	if err != nil {
		return Result{}, err
	}
	u.offered = h.OfferedBy()
	c.unsettled.Put(t.Key(), u)
	why := c.leavesAlone(u)
	c.conn.Log.Warn("an issue is left alone", zap.String("issue", t.Key()), zap.String("task", m.Nonce),
		zap.String("reason", why))
	return c.undo(ctx, t, m, why)
}

func labelsChanging(t tracker.Thread) error {
	return &api.Error{
		Kind: api.KindTransient, Message: "the labels of " + t.Key() + " have changed while it was being claimed",
		Doubtful: true,
	}
}

func (c *Claims) leavesAlone(u unsettled) string {
	return fmt.Sprintf("its labels were changed while it was claimed, %d times in a row: it is left alone until the "+
		"label %s is put on again",
		u.times, c.read.Labels.Task)
}

// leftToPeople says why an issue is left alone; empty: it is not, or somebody has offered it since.
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
