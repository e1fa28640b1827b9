package github

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/github/gate"
)

// Answer is a comment by a person, never by a bot or by a director: what a director writes begins with a
// marker. The person whose token we use is a person like any other.
type Answer struct {
	// CommentID and At together name one text: an edit keeps the id and has a later At.
	CommentID int64
	By        string
	At        time.Time // when this text was written: the comment, or its last edit; whole seconds, UTC, GitHub's clock
	Text      string    // the whole comment, without control characters; at most answerLimit characters
	Command   Command
	// of a command: the text that follows it and its argument; empty if the command is not carried out
	Rest    string
	Word    string        // of an unknown command: what stands where its name should, at most wordLimit characters
	Meant   Command       // of an unknown command: the nearest one, CommandNone if none is near
	For     time.Duration // of snooze: 1 minute to 30 days
	Amount  int           // of budget: 1 to 20
	Problem string        // a sentence that says what is wrong with the argument: then the command is not carried out
	// MayWrite: the author has write access to the repository. Without it the comment has no effect.
	MayWrite bool
	// Acknowledged: our own thumbs-up is on the comment and not older than this text, so it was carried out. An
	// edit after it is a new text.
	Acknowledged bool

	thumbs int // thumbs-up of anybody
}

const (
	// answerLimit bounds what is read of one comment, in characters.
	answerLimit = 16_000
	// rightsPerCall bounds for how many untrusted authors one Answers or Comments asks GitHub what they may do:
	// a flood of comments must not use up the hourly requests.
	rightsPerCall = 20
)

// Answers lists what people have said on an issue since our fleet's latest escalation there, oldest first:
// comments and edits, in the order of GitHub's ids and times, which needs no clock of ours. There are none if
// there was no escalation.
func (c *Client) Answers(ctx context.Context, key string) ([]Answer, error) {
	t, err := c.threadComments(ctx, gate.Reads, key)
	if err != nil {
		return nil, err
	}
	var all []Answer
	asked := 0
	for _, r := range c.afterEscalation(t) {
		if !r.byPerson() {
			continue
		}
		if !r.trusted && !c.knowsRight(t.place, r.author) {
			if asked++; asked > rightsPerCall {
				c.log.Warn("many people comment at once: some comments are read later", zap.String("issue", t.key()),
					zap.Int64("comment", r.id))
				continue
			}
		}
		a := toAnswer(r, t.self)
		if err := c.vet(ctx, t.place, &a); err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	slices.SortStableFunc(all,
		func(a, b Answer) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.CommentID, b.CommentID)) })
	return all, nil
}

// afterEscalation are the comments that were written or edited after our latest question.
func (c *Client) afterEscalation(t thread) []comment {
	for i, r := range slices.Backward(t.comments) {
		if r.mark == nil || r.mark.kind != markBlocked || r.mark.Fleet != c.opts.Fleet ||
			!strings.EqualFold(r.author, t.self) {
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

// byPerson reports whether a comment is a person's own words. Whoever wrote it: what begins like a marker is a
// director's, also of another version.
func (r comment) byPerson() bool { return r.person && !beginsLikeMarker(r.body) }

func toAnswer(r comment, self string) Answer {
	a := Answer{CommentID: r.id, By: r.author, At: r.edited, thumbs: r.thumbs}
	text := clip(plain(newlines.Replace(r.body)), answerLimit)
	a.readCommand(text, self) // with the first line's indentation
	a.Text = strings.TrimSpace(text)
	return a
}

// newlines are all that GitHub renders as one. A carriage return must not make us read a comment as a terminal
// would show it.
var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// Vet fills in MayWrite and, of a command, Acknowledged. key is any issue of the comment's repository.
func (c *Client) Vet(ctx context.Context, key string, a *Answer) error {
	p, err := parseKey(key)
	if err != nil {
		return err
	}
	return c.vet(ctx, p, a)
}

func (c *Client) vet(ctx context.Context, p place, a *Answer) (err error) {
	if a.MayWrite, err = c.mayWrite(ctx, p, a.By); err != nil || !a.MayWrite || a.Command == CommandNone ||
		a.thumbs == 0 {
		return err
	}
	self, err := c.self(ctx, gate.Reads)
	if err != nil {
		return err
	}
	ours, err := c.ourReactions(ctx, p, a.CommentID, self)
	if err != nil && !isGone(err) {
		return err
	}
	mine, there := ours[ReactionUnderstood]
	a.Acknowledged = there && !mine.olderThan(a.At)
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
func (c *Client) Unblocked(ctx context.Context, key string) (u Unblock, ok bool, err error) {
	p, err := parseKey(key)
	if err != nil {
		return Unblock{}, false, err
	}
	e, err := c.lastLabelEvent(ctx, gate.Reads, p, c.labels.Blocked)
	if err != nil || e.GetEvent() != "unlabeled" {
		return Unblock{}, false, err
	}
	return Unblock{By: e.GetActor().GetLogin(), At: e.GetCreatedAt().UTC(), Person: isPerson(e.GetActor())}, true, nil
}
