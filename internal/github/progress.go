package github

import (
	"context"
	"time"

	"go.uber.org/zap"

	"retake/internal/github/gate"
)

// AttemptLine is one attempt in a table that people read.
type AttemptLine struct {
	Number int
	Stage  string // where it ended
	Reason string // of the closed list; "" if it succeeded or still runs
	Cause  string // one line
	Then   string // what Retake did next
	At     time.Time
}

// Earlier is how many attempts came before.
func (a AttemptLine) Earlier() int { return max(0, a.Number-1) }

// ProgressView is what the progress comment shows. The same view gives the same text, and the same text is not
// sent again: put nothing into it that changes with time alone.
type ProgressView struct {
	State     string    // of the task
	Attempt   int       // 0: none yet
	Validates bool      // the attempt under way, or the next one, only validates the work
	Review    int       // the pull request that is in review; 0: none
	PutOff    time.Time // Parked: until when; zero: not known
	Note      string
	Incident  string        // key of the issue about the outage that the task waits for; empty: none
	Commanded string        // what the operator last commanded, and who; empty: nothing
	Attempts  []AttemptLine // finished ones
}

// progressPage is what pages/progress.md shows.
type progressPage struct {
	ProgressView
	Nonce string
	Asked asked // Blocked: zero if the question is not there
}

// stateBlocked is the state of a task that waits for an answer.
const stateBlocked = "Blocked"

// claimComment is the comment of a claim of ours, as it was last read or written.
type claimComment struct {
	place
	comment
}

// Progress shows a task's state in its claim comment. It is not_found when there is no such comment of ours
// (any more), and changes nothing once the task was delivered.
func (c *Client) Progress(ctx context.Context, key, nonce string, v ProgressView) error {
	if err := c.checkWrites("progress", key, zap.String("task", nonce), zap.String("to", v.State)); err != nil {
		return err
	}
	for range 2 {
		own, err := c.claimComment(ctx, key, nonce)
		if err != nil || own.mark.Ended != "" {
			return err
		}
		var open asked
		if v.State == stateBlocked {
			t, err := c.threadComments(ctx, gate.Progress, key)
			if err != nil {
				return err
			}
			open = askedIn(t.ownComments(marker{kind: markBlocked, Fleet: c.opts.Fleet, Nonce: nonce}))
		}
		own.body, err = c.edit(ctx, gate.Progress, own.place, own.comment, *own.mark,
			c.page("progress", progressPage{v, nonce, open}))
		if isGone(err) {
			c.claims.drop(key + " " + nonce)
			continue // deleted, or replaced by a claim that ran again
		}
		if err == nil {
			c.claims.put(key+" "+nonce, own)
		}
		return err
	}
	return &Error{Kind: KindNotFound, Message: "the claim comment of " + key + " is gone"}
}

// claimComment finds the comment of a claim in memory, or on GitHub.
func (c *Client) claimComment(ctx context.Context, key, nonce string) (claimComment, error) {
	if own, ok := c.claims.get(key + " " + nonce); ok {
		return own, nil
	}
	t, err := c.threadComments(ctx, gate.Progress, key)
	if err != nil {
		return claimComment{}, err
	}
	t.adopt(c.opts.Fleet, nonce)
	found := t.ownComments(marker{kind: markClaim, Fleet: c.opts.Fleet, Nonce: nonce})
	if len(found) == 0 {
		return claimComment{}, &Error{Kind: KindNotFound, Message: "no claim comment of claim " + nonce + " on " + key}
	}
	return claimComment{t.place, found[0]}, nil
}
