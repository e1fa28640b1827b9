package claims

import (
	"context"

	"go.uber.org/zap"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
)

// ProgressPage is the data for pages/progress.md.
type ProgressPage struct {
	pages.ProgressView
	Nonce string
	Asked pages.Asked // the open question of a blocked task; otherwise zero
}

// claimComment is a claim comment by our account, with its text as of the last read or write.
type claimComment struct {
	api.Place
	tracker.Comment
}

// Progress updates the claim comment with a task's state. It does nothing if the marker says that the claim has ended.
// It returns a not_found *api.Error if the comment does not exist.
func (c *Claims) Progress(ctx context.Context, key, nonce string, v pages.ProgressView) error {
	if err := c.conn.CheckWrites("progress", key, zap.String("task", nonce), zap.String("to", v.State)); err != nil {
		return err
	}
	for range 2 {
		own, err := c.claimComment(ctx, key, nonce)
		if err != nil || own.Mark.Ended != "" {
			return err
		}
		var open pages.Asked
		if v.State == pages.StateBlocked {
			t, err := c.read.ThreadComments(ctx, gate.Progress, key)
			if err != nil {
				return err
			}
			question := tracker.LatestOf(t.OwnComments(tracker.Marker{
				Kind: tracker.MarkBlocked, Fleet: c.read.Fleet,
				Nonce: nonce,
			}))
			open = pages.AskedIn(question.Body, question.URL)
		}
		own.Body, err = c.write.Edit(ctx, gate.Progress, own.Place, own.Comment, *own.Mark,
			c.text.Page("progress", ProgressPage{v, nonce, open}))
		if api.IsGone(err) {
			c.Forget(key, nonce)
			continue // the cached comment was deleted, and a repeated claim may have written a new one
		}
		if err == nil {
			c.claims.Put(key+" "+nonce, own)
		}
		return err
	}
	return &api.Error{Kind: api.KindNotFound, Message: "the claim comment of " + key + " is gone"}
}

// claimComment returns the comment of a claim from the cache, or else from GitHub.
func (c *Claims) claimComment(ctx context.Context, key, nonce string) (claimComment, error) {
	if own, ok := c.claims.Get(key + " " + nonce); ok {
		return own, nil
	}
	t, err := c.read.ThreadComments(ctx, gate.Progress, key)
	if err != nil {
		return claimComment{}, err
	}
	t.Adopt(c.read.Fleet, nonce)
	found := t.OwnComments(tracker.Marker{Kind: tracker.MarkClaim, Fleet: c.read.Fleet, Nonce: nonce})
	if len(found) == 0 {
		return claimComment{}, &api.Error{Kind: api.KindNotFound, Message: "no claim comment for claim " + nonce +
			" on " + key}
	}
	return claimComment{t.Place, found[0]}, nil
}

// Forget drops a claim's comment from the cache after other code edited it.
func (c *Claims) Forget(key, nonce string) { c.claims.Drop(key + " " + nonce) }
