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
	// rightsPerCall limits the permission lookups for unknown authors in one call to Answers or Comments, so that many
	// comments cannot use up the hour's requests.
	rightsPerCall = 20
)

// Answers lists people's comments and edits on an issue since our fleet's latest escalation, oldest first. The order
// comes from GitHub's ids and times and does not depend on our clock. The list is empty without an escalation.
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
				c.conn.Log.Warn("many people are commenting at once; some comments will be read later",
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

// afterEscalation returns the comments that were written or edited after our latest question.
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

// Vet sets MayWrite and, for a command, Acknowledged. key is any issue of the comment's repository.
func (c *Inbox) Vet(ctx context.Context, key string, a *command.Answer) error {
	p, err := api.ParseKey(key)
	if err != nil {
		return err
	}
	return c.vet(ctx, p, a)
}

func (c *Inbox) vet(ctx context.Context, p api.Place, a *command.Answer) (err error) {
	if a.MayWrite, err = c.read.MayWriteAt(ctx, p, a.By, a.At); err != nil || !a.MayWrite ||
		a.Command == command.None || a.Thumbs == 0 {
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

// Unblock describes the removal of the blocked label.
type Unblock struct {
	By string
	At time.Time // whole seconds, UTC, GitHub's clock
	// Person reports whether a person removed it, which is an answer. GitHub lets only people with triage rights or
	// more remove a label, so no permission lookup is necessary. Bots do not count, because their rules ignore the
	// question.
	//
	// Our login counts if it belongs to a person, because then the owner of the token must have removed the label. The
	// director removes it only in a claim with Unblock, a release or a delivery, and it does not run these for a
	// blocked task.
	Person bool
}

// Unblocked returns who removed the blocked label from an issue. ok is false if the latest change to that label was not
// its removal.
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
