package github

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// ReleaseRequest gives an issue back.
type ReleaseRequest struct {
	Key, Nonce  string
	Why         string // one line
	RestoreTask bool   // true: anybody may claim it again; false: it was closed or taken, no label stays
	// Reclaim: the claim is called stale. It may be another fleet's or credential's: Nonce is that of Stale's holder.
	Reclaim bool
	// LastSeen, of a reclaim, is the time that Stale told: ErrAlive if the claim comment was edited since. Zero: don't look.
	LastSeen time.Time
}

// Release ends a claim: a marker comment, after which older claims compete no more, then the labels. A repetition that
// finds the issue claimed anew since touches nothing.
func (c *Client) Release(ctx context.Context, req ReleaseRequest) error {
	if err := c.mute("release", req.Key, zap.String("task", req.Nonce), zap.String("reason", req.Why)); err != nil {
		return err
	}
	t, err := c.thread(ctx, laneCompletion, req.Key)
	if err != nil {
		return err
	}
	m := marker{kind: markRelease, Fleet: c.opts.Fleet, Nonce: req.Nonce}
	if req.Reclaim {
		done, err := c.reclaimed(t, m, req.LastSeen)
		if err != nil || done {
			return err
		}
	}
	created, err := c.post(ctx, laneCompletion, t, m, c.releaseText(req))
	if err != nil {
		return err
	}
	if created && req.Reclaim { // somebody may have been faster, and a third one claimed since
		if t, err = c.thread(ctx, laneCompletion, req.Key); err != nil {
			return err
		}
	}
	if held, ok := t.holder(); ok && (!created || held.mark.Nonce != req.Nonce) {
		return nil
	}
	goal := ""
	if req.RestoreTask {
		goal = c.labels.Task
	}
	if err := c.moveLabels(ctx, laneCompletion, t, goal, created); err != nil {
		return err
	}
	c.forget(req.Key, req.Nonce)
	return nil
}

// reclaimed tells whether somebody else has ended the claim already, or ErrAlive if it must not be ended.
func (c *Client) reclaimed(t thread, m marker, lastSeen time.Time) (done bool, err error) {
	if len(t.ours(m)) > 0 {
		return false, nil // ours: the labels may be missing
	}
	if t.wasReleased(m.Nonce) {
		return true, nil
	}
	held, ok := t.holder()
	if ok && (held.mark.Nonce != m.Nonce || !lastSeen.IsZero() && held.edited.After(lastSeen)) {
		return false, ErrAlive
	}
	return false, nil
}

func (c *Client) releaseText(req ReleaseRequest) string {
	r := c.redactor()
	why := r.line(req.Why, 300)
	text := "**Retake** gives this issue back"
	if why != "" {
		text += ": " + why
	}
	if req.Reclaim {
		text = reclaimLine(why)
	}
	return fmt.Sprintf("%s\n\n<sub>claim `%s` · fleet `%s`</sub>", text, req.Nonce, c.opts.Fleet)
}

// reclaimLine begins with a word that other tools look for.
func reclaimLine(why string) string {
	text := "Retake-Reclaim: the claim is stale"
	if why != "" {
		text += ", " + why
	}
	return text
}
