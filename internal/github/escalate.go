package github

import (
	"cmp"
	"context"
	"strings"

	"go.uber.org/zap"
)

// Escalation is what a human needs to read in the morning. One Nonce and AttemptID make one comment, ever.
type Escalation struct {
	Key       string
	Nonce     string
	AttemptID string // the attempt after which Retake stopped
	Block     string // names this block: one block, one comment; empty: AttemptID, which can block only once then

	Stage      string
	Reason     string        // of the closed list
	Title      string        // the reason in words; empty: the reason itself
	Cause      string        // one line: the root cause as observed
	Facts      []string      // further observations, one line each: "exit code 1", "no OOM flag"
	Attempts   []AttemptLine // what was tried, oldest first
	Tried      []string      // what else was tried, one line each
	WhyStopped string
	Ask        string // the one thing that a human must do or answer
	Question   string // what the agent asks, in its own words: then this is the ask; needs_human without it: Cause is it
	Reclaim    string // the claim went stale (again): what was seen, one line
	Tail       string // the end of the output
}

// Escalate asks a human for help: comment, labels (blocked on, claimed and task off), read back. A repetition finishes
// what is missing; once a human has taken the blocked label off, it stays off.
func (c *Client) Escalate(ctx context.Context, e Escalation) error {
	if err := c.checkWrites("escalate", e.Key, zap.String("attempt", e.AttemptID), zap.String("reason", e.Reason)); err != nil {
		return err
	}
	t, err := c.thread(ctx, laneEscalation, e.Key)
	if err != nil {
		return err
	}
	m := marker{kind: markBlocked, Fleet: c.opts.Fleet, Nonce: e.Nonce, Attempt: cmp.Or(e.Block, e.AttemptID)}
	created, err := c.post(ctx, laneEscalation, t, m, c.escalationText(e))
	if err != nil {
		return err
	}
	if err := c.moveLabels(ctx, laneEscalation, t, c.labels.Blocked, created); err != nil {
		return err
	}
	if !created {
		return nil
	}
	back, err := c.threadComments(ctx, laneEscalation, e.Key)
	if err != nil {
		return err
	}
	if len(back.ownComments(m)) == 0 {
		return transient("the escalation on "+t.key()+" cannot be read back yet", nil)
	}
	return nil
}

func (c *Client) escalationText(e Escalation) string {
	e.Question = e.question()
	return c.page("escalation", e)
}

// question is what the agent asks, "" if this is no question.
func (e Escalation) question() string {
	if e.Reason != "needs_human" {
		return ""
	}
	return strings.TrimSpace(cmp.Or(e.Question, e.Cause))
}
