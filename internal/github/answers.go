package github

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

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
	// MayWrite: the author has write access to the repository. Without it the comment has no effect.
	MayWrite bool
	// Acknowledged: our own thumbs-up is on the comment, so it was carried out. Such a comment is no longer a command,
	// even if it is edited.
	Acknowledged bool
}

const (
	// answerLimit bounds what is read of one comment, in characters.
	answerLimit = 16_000
	// rightsPerCall bounds for how many untrusted authors one Answers asks GitHub what they may do: a flood of comments
	// must not use up the hourly requests.
	rightsPerCall = 20
)

// Answers lists what people have said on an issue since our fleet's latest escalation there, oldest first: comments and
// edits, in the order of GitHub's ids and times, which needs no clock of ours. There are none if there was no escalation.
func (c *Client) Answers(ctx context.Context, key string) ([]Answer, error) {
	t, err := c.threadComments(ctx, laneReads, key)
	if err != nil {
		return nil, err
	}
	var all []Answer
	asked := 0
	for _, r := range c.afterEscalation(t) {
		if _, marked := readMarker(r.body); marked || !r.person || strings.EqualFold(r.author, t.self) {
			continue
		}
		if _, known := c.knownRight(t.place, r.author); !known && !r.trusted {
			if asked++; asked > rightsPerCall {
				c.log.Warn("many people comment at once: some comments are read later", zap.String("issue", t.key()), zap.Int64("comment", r.id))
				continue
			}
		}
		may, err := c.mayWrite(ctx, t.place, r.author)
		if err != nil {
			return nil, err
		}
		a := toAnswer(r, may)
		if r.thumbs > 0 && a.Command != CommandNone {
			ours, err := c.ourReactions(ctx, t.place, r.id, t.self)
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

// afterEscalation are the comments that were written or edited after our latest question.
func (c *Client) afterEscalation(t thread) []comment {
	for i, r := range slices.Backward(t.comments) {
		if r.mark == nil || r.mark.kind != markBlocked || r.mark.Fleet != c.opts.Fleet || !strings.EqualFold(r.author, t.self) {
			continue
		}
		late := slices.Clone(t.comments[i+1:])
		for _, old := range t.comments[:i] {
			if old.edited.After(r.at) {
				late = append(late, old)
			}
		}
		return late
	}
	return nil
}

func toAnswer(r comment, may bool) Answer {
	a := Answer{CommentID: r.id, By: r.author, At: r.edited, MayWrite: may}
	a.Text = clip(strings.TrimSpace(plain(r.body)), answerLimit)
	a.Command, a.Rest = readCommand(a.Text)
	return a
}

// Unblock is who removed the blocked label.
type Unblock struct {
	By       string
	At       time.Time // whole seconds, UTC, GitHub's clock
	MayWrite bool      // a person with write access, not ourselves and no bot
}

// Unblocked returns who removed the blocked label from an issue. ok is false if removing it was not the last thing that
// happened to that label.
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
