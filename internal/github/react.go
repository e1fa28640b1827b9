package github

import (
	"context"
	"strings"

	gh "github.com/google/go-github/v60/github"
	"go.uber.org/zap"
)

// The reactions that acknowledge a command; a comment carries at most one of them from us.
const (
	ReactionUnderstood = "+1"
	ReactionConfused   = "confused" // not understood, or not allowed to this person
)

// reactionPages bounds the reactions of one comment that are read: 500. Beyond them a reaction is made again, which
// GitHub answers with the old one.
const reactionPages = 5

// React puts our reaction on a comment of an issue, unless it is there, and takes back the other acknowledgement if that is
// there: an edited comment can turn from one into the other. A comment that is gone needs none.
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
	self, err := c.self(ctx, laneCompletion)
	if err != nil {
		return err
	}
	ours, err := c.ourReactions(ctx, p, commentID, self)
	if err != nil {
		return err
	}
	if _, there := ours[content]; !there {
		_, _, err := c.lanes[laneCompletion].Reactions.CreateIssueCommentReaction(ctx, p.owner, p.repo, commentID, content)
		if err != nil {
			return normalize(err)
		}
	}
	other := map[string]string{ReactionUnderstood: ReactionConfused, ReactionConfused: ReactionUnderstood}[content]
	id, there := ours[other]
	if !there {
		return nil
	}
	_, err = c.lanes[laneCompletion].Reactions.DeleteIssueCommentReaction(ctx, p.owner, p.repo, commentID, id)
	return normalize(err)
}

// ourReactions are the ids of our own reactions to a comment, by content.
func (c *Client) ourReactions(ctx context.Context, p place, commentID int64, self string) (map[string]int64, error) {
	ours := map[string]int64{}
	opts := &gh.ListOptions{PerPage: pageSize}
	for range reactionPages {
		raw, resp, err := c.lanes[laneReads].Reactions.ListIssueCommentReactions(ctx, p.owner, p.repo, commentID, opts)
		if err != nil {
			return nil, normalize(err)
		}
		for _, r := range raw {
			if strings.EqualFold(r.GetUser().GetLogin(), self) {
				ours[r.GetContent()] = r.GetID()
			}
		}
		if opts.Page = resp.NextPage; opts.Page == 0 {
			break
		}
	}
	return ours, nil
}
