package inbox

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/github/api"
	"retake/internal/github/command"
	"retake/internal/github/gate"
	"retake/internal/github/tracker"
)

const (
	// rightsPerCall bounds for how many untrusted authors one Answers or Comments asks GitHub what they may do:
	// a flood of comments must not use up the hourly requests.
	rightsPerCall = 20
)

// Answers lists what people have said on an issue since our fleet's latest escalation there, oldest first:
// comments and edits, in the order of GitHub's ids and times, which needs no clock of ours. There are none if
// there was no escalation.
func (c *Inbox) Answers(ctx context.Context, key string) ([]command.Answer, error) {
	t, err := c.read.ThreadComments(ctx, gate.Reads, key)
	if err != nil {
		return nil, err
	}
	var all []command.Answer
	asked := 0
	for _, r := range c.afterEscalation(t) {
		if !r.ByPerson() {
			continue
		}
		if !r.Trusted && !c.read.KnowsRight(t.Place, r.Author) {
			if asked++; asked > rightsPerCall {
				c.conn.Log.Warn("many people comment at once: some comments are read later",
					zap.String("issue", t.Key()),
					zap.Int64("comment", r.ID))
				continue
			}
		}
		a := toAnswer(r, t.Self)
		if err := c.vet(ctx, t.Place, &a); err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	slices.SortStableFunc(all,
		func(a, b command.Answer) int {
			return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.CommentID, b.CommentID))
		})
	return all, nil
}

// afterEscalation are the comments that were written or edited after our latest question.
func (c *Inbox) afterEscalation(t tracker.Thread) []tracker.Comment {
	for i, r := range slices.Backward(t.Comments) {
		if r.Mark == nil || r.Mark.Kind != tracker.MarkBlocked || r.Mark.Fleet != c.read.Fleet ||
			!strings.EqualFold(r.Author, t.Self) {
			continue
		}
		late := slices.Clone(t.Comments[i+1:])
		for _, old := range t.Comments[:i] {
			if old.Edited.After(r.At) {
				late = append(late, old)
			}
		}
		return late
	}
	return nil
}

// Vet fills in MayWrite and, of a command, Acknowledged. key is any issue of the comment's repository.
func (c *Inbox) Vet(ctx context.Context, key string, a *command.Answer) error {
	p, err := api.ParseKey(key)
	if err != nil {
		return err
	}
	return c.vet(ctx, p, a)
}

func (c *Inbox) vet(ctx context.Context, p api.Place, a *command.Answer) (err error) {
	if a.MayWrite, err = c.read.MayWrite(ctx, p, a.By); err != nil || !a.MayWrite || a.Command == command.None ||
		a.Thumbs == 0 {
		return err
	}
	self, err := c.conn.Self(ctx, gate.Reads)
	if err != nil {
		return err
	}
	ours, err := c.read.OurReactions(ctx, p, a.CommentID, self)
	if err != nil && !api.IsGone(err) {
		return err
	}
	mine, there := ours[tracker.ReactionUnderstood]
	a.Acknowledged = there && !mine.OlderThan(a.At)
	return nil
}

// Unblock is who removed the blocked label.
type Unblock struct {
	By string
	At time.Time // whole seconds, UTC, GitHub's clock
	// Person: an answer. GitHub lets only people with triage rights or more take a label off, so that nobody
	// else has to be asked. Bots do it by rules that know nothing of the question.
	//
	// Our own login counts, too: if we have not removed the label ourselves since the question, the person
	// whose token we use has. A claim with Unblock, a release and a delivery do, and a blocked task has none of
	// them under way.
	Person bool
}

// Unblocked returns who removed the blocked label from an issue. ok is false if removing it was not the last thing that
// happened to that label.
func (c *Inbox) Unblocked(ctx context.Context, key string) (u Unblock, ok bool, err error) {
	p, err := api.ParseKey(key)
	if err != nil {
		return Unblock{}, false, err
	}
	e, err := c.read.LastLabelEvent(ctx, gate.Reads, p, c.read.Labels.Blocked)
	if err != nil || e.GetEvent() != "unlabeled" {
		return Unblock{}, false, err
	}
	return Unblock{
		By: e.GetActor().GetLogin(), At: e.GetCreatedAt().UTC(),
		Person: tracker.IsPerson(e.GetActor()),
	}, true, nil
}

func toAnswer(r tracker.Comment, self string) command.Answer {
	a := command.Read(r.Body, self)
	a.CommentID, a.By, a.At, a.Thumbs = r.ID, r.Author, r.Edited, r.Thumbs
	return a
}
