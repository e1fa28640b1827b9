package github

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
)

// Answer is a comment by a person, never by ourselves, by a bot or by another director.
type Answer struct {
	// CommentID and At together name one text: an edit keeps the id and has a later At.
	CommentID int64
	By        string
	At        time.Time // when this text was written: the comment, or its last edit; whole seconds, UTC, GitHub's clock
	Text      string    // the whole comment, without control characters; at most answerLimit characters
	Command   Command
	Rest      string // of a command: what follows its word
	// MayWrite: the author has write access to the repository. Without it nothing here is more than talk.
	MayWrite bool
	// Acknowledged: our own thumbs-up is on the comment, so it was acted on. Such a comment is no command any more,
	// even if it was edited since.
	Acknowledged bool
}

const (
	// answerLimit bounds what is read of one comment, in characters.
	answerLimit = 16_000
	// strangersLimit bounds how many permissions of people without a trusted association one Answers asks for: a
	// flood of comments must not use up the hourly requests.
	strangersLimit = 20
)

// Answers lists what people have said on an issue since a time by GitHub's clock (comments and edits of that very second
// included), oldest first. A zero time means: since our fleet's latest escalation there, in the order of GitHub's ids
// and times, which needs no clock of ours; none, if there was no escalation.
func (c *Client) Answers(ctx context.Context, key string, since time.Time) ([]Answer, error) {
	p, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	self, err := c.self(ctx, laneReads)
	if err != nil {
		return nil, err
	}
	remarks, err := c.remarks(ctx, laneReads, p, self, since)
	if err != nil {
		return nil, err
	}
	if since.IsZero() {
		remarks = c.afterEscalation(remarks, self)
	}
	return c.answers(ctx, p, self, remarks)
}

// afterEscalation are the comments that were written or edited after our latest question.
func (c *Client) afterEscalation(remarks []remark, self string) []remark {
	for i, r := range slices.Backward(remarks) {
		if r.mark == nil || r.mark.kind != markBlocked || r.mark.Fleet != c.opts.Fleet || !strings.EqualFold(r.author, self) {
			continue
		}
		late := slices.Clone(remarks[i+1:])
		for _, old := range remarks[:i] {
			if old.edited.After(r.at) {
				late = append(late, old)
			}
		}
		return late
	}
	return nil
}

func (c *Client) answers(ctx context.Context, p place, self string, remarks []remark) ([]Answer, error) {
	var all []Answer
	asked := 0
	for _, r := range remarks {
		if _, marked := readMarker(r.body); marked || !r.person || strings.EqualFold(r.author, self) {
			continue
		}
		if _, known := c.rights.get(p, r.author); !known && !r.trusted {
			if asked++; asked > strangersLimit {
				c.log.Warn("too many people comment at once: some are heard later", zap.String("issue", p.key()), zap.Int64("comment", r.id))
				continue
			}
		}
		may, err := c.mayWrite(ctx, p, r.author)
		if err != nil {
			return nil, err
		}
		a := toAnswer(r, may)
		if r.thumbs > 0 && a.Command != CommandNone {
			ours, err := c.ourReactions(ctx, p, r.id, self)
			if err != nil && !isGone(err) {
				return nil, err
			}
			_, a.Acknowledged = ours[ReactionUnderstood]
		}
		all = append(all, a)
	}
	slices.SortStableFunc(all, func(a, b Answer) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.CommentID, b.CommentID)) })
	return all, nil
}

func toAnswer(r remark, may bool) Answer {
	a := Answer{CommentID: r.id, By: r.author, At: r.edited, MayWrite: may}
	a.Text = strings.TrimSpace(plain(r.body))
	if utf8.RuneCountInString(a.Text) > answerLimit {
		a.Text = clip(a.Text, answerLimit)
	}
	a.Command, a.Rest = readCommand(a.Text)
	return a
}

// Unblock is who took the blocked label off.
type Unblock struct {
	By       string
	At       time.Time // whole seconds, UTC, GitHub's clock
	MayWrite bool      // a person with write access, not ourselves and no bot
}

// Unblocked tells who took the blocked label off an issue; ok is false when the last thing that happened to the label is
// something else.
func (c *Client) Unblocked(ctx context.Context, key string) (u Unblock, ok bool, err error) {
	p, err := parseKey(key)
	if err != nil {
		return Unblock{}, false, err
	}
	self, err := c.self(ctx, laneReads)
	if err != nil {
		return Unblock{}, false, err
	}
	e, err := c.lastLabelEvent(ctx, laneReads, p, c.labels.Blocked)
	if err != nil || e.GetEvent() != "unlabeled" {
		return Unblock{}, false, err
	}
	u = Unblock{By: e.GetActor().GetLogin(), At: e.GetCreatedAt().UTC()}
	if isPerson(e.GetActor()) && !strings.EqualFold(u.By, self) {
		u.MayWrite, err = c.mayWrite(ctx, p, u.By)
	}
	return u, true, err
}
