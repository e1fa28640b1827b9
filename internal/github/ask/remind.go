package ask

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"retake/internal/github/gate"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
)

// RemindRequest describes a second comment about an open question. Each pair of Nonce and Block gets at most one.
type RemindRequest struct {
	Key, Nonce string
	Block      string // identifies the question, as in Escalation
	Title      string // the reason as text; defaults to the question's title
	TakesReply bool   // a comment without a command is the answer
}

// ReminderPage is the data for pages/reminder.md.
type ReminderPage struct {
	RemindRequest
	Asked    time.Time
	Page     string // address of the question
	Question string // the agent's question, as shown in the question's comment; may be empty
}

// Remind writes one short comment with a link to a question. It does nothing if the issue is closed or no longer
// blocked, or if the claim has a newer question.
func (c *Asker) Remind(ctx context.Context, req RemindRequest) error {
	if err := c.conn.CheckWrites("remind", req.Key, zap.String("task", req.Nonce),
		zap.String("attempt", req.Block)); err != nil {
		return err
	}
	t, err := c.read.Thread(ctx, gate.Escalation, req.Key)
	if err != nil {
		return err
	}
	asked := t.OwnComments(tracker.Marker{Kind: tracker.MarkBlocked, Fleet: c.read.Fleet, Nonce: req.Nonce})
	if t.Issue.State != "open" || !t.Issue.Has(c.read.Labels.Blocked) || len(asked) == 0 {
		return nil
	}
	question := asked[len(asked)-1]
	if question.Mark.Attempt != req.Block {
		return nil
	}
	m := tracker.Marker{Kind: tracker.MarkReminder, Fleet: c.read.Fleet, Nonce: req.Nonce, Attempt: req.Block}
	if req.Title == "" {
		req.Title = pages.TitleOf(question.Body)
	}
	page := ReminderPage{
		req, question.At, fmt.Sprintf("%s#issuecomment-%d", t.Issue.URL, question.ID), pages.QuestionOf(question.Body),
	}
	_, err = c.write.Post(ctx, gate.Escalation, t, m, c.text.Page("reminder", page))
	return err
}
