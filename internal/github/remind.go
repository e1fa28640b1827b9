package github

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"retake/internal/github/gate"
)

// RemindRequest asks again for the answer to a question of ours. Nonce and Block make one comment, ever.
type RemindRequest struct {
	Key, Nonce string
	Block      string // names the question, as in Escalation
	Title      string // the reason in words; empty: as in the question
}

// reminderPage is what pages/reminder.md shows.
type reminderPage struct {
	RemindRequest
	Asked time.Time
	Page  string // of the question
}

// Remind writes one short comment that points to a question. Once the question is no longer open (the issue is
// closed or not blocked any more, or it is not the claim's latest question) nobody is reminded.
func (c *Client) Remind(ctx context.Context, req RemindRequest) error {
	if err := c.checkWrites("remind", req.Key, zap.String("task", req.Nonce),
		zap.String("attempt", req.Block)); err != nil {
		return err
	}
	t, err := c.thread(ctx, gate.Escalation, req.Key)
	if err != nil {
		return err
	}
	asked := t.ownComments(marker{kind: markBlocked, Fleet: c.opts.Fleet, Nonce: req.Nonce})
	if t.issue.State != "open" || !t.issue.Has(c.labels.Blocked) || len(asked) == 0 {
		return nil
	}
	question := asked[len(asked)-1]
	if question.mark.Attempt != req.Block {
		return nil
	}
	m := marker{kind: markReminder, Fleet: c.opts.Fleet, Nonce: req.Nonce, Attempt: req.Block}
	if req.Title == "" {
		req.Title = titleOf(question)
	}
	page := reminderPage{req, question.at, fmt.Sprintf("%s#issuecomment-%d", t.issue.URL, question.id)}
	_, err = c.post(ctx, gate.Escalation, t, m, c.page("reminder", page))
	return err
}
