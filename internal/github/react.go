package github

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"
	"go.uber.org/zap"

	"retake/internal/github/gate"
)

// The reactions that acknowledge a command; a comment carries at most one of them from us.
const (
	ReactionUnderstood = "+1"
	ReactionConfused   = "confused" // not understood, or not allowed to this person
)

// reactionPages bounds the reactions of one comment that are read: 500. Beyond them a reaction is made again, which
// GitHub answers with the old one.
const reactionPages = 5

// ownReaction is a reaction of ours. go-github leaves its time out.
type ownReaction struct {
	gh.Reaction
	CreatedAt time.Time `json:"created_at"`
}

// olderThan reports whether the comment was edited after we reacted: then the reaction is to another text.
// Without a time it is to whatever the comment says.
func (r ownReaction) olderThan(edit time.Time) bool {
	return !r.CreatedAt.IsZero() && r.CreatedAt.Before(edit)
}

// React puts our reaction on a comment of an issue, unless it is there, and takes back the other
// acknowledgement if that is there: an edited comment can turn from one into the other. A reaction from before
// the comment's last edit is made anew, so that its time says to which text it is. A comment that is gone needs
// none.
func (c *Client) React(ctx context.Context, key string, commentID int64, content string) error {
	if err := c.checkWrites("react", key, zap.Int64("comment", commentID), zap.String("to", content)); err != nil {
		return err
	}
	return unlessGone(c.react(ctx, key, commentID, content))
}

func (c *Client) react(ctx context.Context, key string, commentID int64, content string) error {
	p, err := parseKey(key)
	if err != nil {
		return err
	}
	self, err := c.self(ctx, gate.Completion)
	if err != nil {
		return err
	}
	ours, err := c.ourReactions(ctx, p, commentID, self)
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
		_, _, err := c.lanes[gate.Completion].Reactions.CreateIssueCommentReaction(ctx, p.owner, p.repo, commentID,
			content)
		if err != nil {
			return normalize(err)
		}
	}
	other := map[string]string{ReactionUnderstood: ReactionConfused, ReactionConfused: ReactionUnderstood}[content]
	if old, there := ours[other]; there {
		return c.unreact(ctx, p, commentID, old)
	}
	return nil
}

// isCurrent reports whether a reaction of ours is to the text that the comment has now; if not, it is taken back.
func (c *Client) isCurrent(ctx context.Context, p place, commentID int64, mine ownReaction) (bool, error) {
	raw, _, err := c.lanes[gate.Reads].Issues.GetComment(ctx, p.owner, p.repo, commentID)
	if err != nil {
		return false, normalize(err)
	}
	if !mine.olderThan(raw.GetUpdatedAt().UTC()) {
		return true, nil
	}
	return false, c.unreact(ctx, p, commentID, mine)
}

func (c *Client) unreact(ctx context.Context, p place, commentID int64, r ownReaction) error {
	_, err := c.lanes[gate.Completion].Reactions.DeleteIssueCommentReaction(ctx, p.owner, p.repo, commentID, r.GetID())
	return normalize(err)
}

// ourReactions are our own reactions to a comment, by content.
func (c *Client) ourReactions(ctx context.Context, p place, commentID int64,
	self string,
) (map[string]ownReaction, error) {
	ours := map[string]ownReaction{}
	for page, pages := 1, 0; page != 0 && pages < reactionPages; pages++ {
		path := fmt.Sprintf("repos/%s/%s/issues/comments/%d/reactions?per_page=%d&page=%d", p.owner, p.repo, commentID,
			pageSize, page)
		req, err := c.lanes[gate.Reads].NewRequest(http.MethodGet, path, nil)
		if err != nil {
			return nil, normalize(err)
		}
		var raw []ownReaction
		resp, err := c.lanes[gate.Reads].Do(ctx, req, &raw)
		if err != nil {
			return nil, normalize(err)
		}
		for _, r := range raw {
			if strings.EqualFold(r.GetUser().GetLogin(), self) {
				ours[r.GetContent()] = r
			}
		}
		page = resp.NextPage
	}
	return ours, nil
}
