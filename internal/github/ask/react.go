package ask

import (
	"context"

	"go.uber.org/zap"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/tracker"
)

// React adds our reaction to a comment. Thumbs-up and confused replace each other, because an edit can make a valid
// command invalid, or vice versa. React also replaces a reaction that is older than the comment's last edit, so that
// the time of the reaction shows which text it acknowledges. It ignores a deleted comment.
func (c *Asker) React(ctx context.Context, key string, commentID int64, content string) error {
	if err := c.conn.CheckWrites("react", key, zap.Int64("comment", commentID), zap.String("to", content)); err != nil {
		return err
	}
	return api.UnlessGone(c.react(ctx, key, commentID, content))
}

func (c *Asker) react(ctx context.Context, key string, commentID int64, content string) error {
	p, err := api.ParseKey(key)
	if err != nil {
		return err
	}
	self, err := c.conn.Self(ctx, gate.Completion)
	if err != nil {
		return err
	}
	ours, err := c.read.OurReactions(ctx, p, commentID, self)
	if err != nil {
		return err
	}
	mine, there := ours[content]
	if there && !mine.CreatedAt.IsZero() {
		if there, err = c.isCurrent(ctx, p, commentID, mine); err != nil {
			return err
		}
	}
	if !there {
		_, _, err := c.conn.Lane(gate.Completion).Reactions.CreateIssueCommentReaction(ctx, p.Owner, p.Repo, commentID,
			content)
		if err != nil {
			return api.Normalize(err)
		}
	}
	other := map[string]string{
		tracker.ReactionUnderstood: tracker.ReactionConfused,
		tracker.ReactionConfused:   tracker.ReactionUnderstood,
	}[content]
	if old, there := ours[other]; there {
		return c.unreact(ctx, p, commentID, old)
	}
	return nil
}

// isCurrent reports whether our reaction is at least as new as the last edit of the comment. It removes an older
// reaction.
func (c *Asker) isCurrent(ctx context.Context, p api.Place, commentID int64, mine tracker.OwnReaction) (bool, error) {
	raw, _, err := c.conn.Lane(gate.Reads).Issues.GetComment(ctx, p.Owner, p.Repo, commentID)
	if err != nil {
		return false, api.Normalize(err)
	}
	if !mine.OlderThan(raw.GetUpdatedAt().UTC()) {
		return true, nil
	}
	return false, c.unreact(ctx, p, commentID, mine)
}

func (c *Asker) unreact(ctx context.Context, p api.Place, commentID int64, r tracker.OwnReaction) error {
	_, err := c.conn.Lane(gate.Completion).Reactions.DeleteIssueCommentReaction(ctx, p.Owner, p.Repo, commentID,
		r.GetID())
	return api.Normalize(err)
}
