package tracker

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/api"
	"retake/internal/github/gate"
)

// reactionPages is the maximum number of reaction pages to read for a comment. They hold 500 reactions. If our reaction
// comes later in the list, we add it again, and GitHub returns the existing reaction.
const reactionPages = 5

// OwnReaction is a reaction by our account. It adds the time, which go-github does not support.
type OwnReaction struct {
	gh.Reaction
	CreatedAt time.Time `json:"created_at"`
}

// OlderThan reports whether the comment was edited after we reacted, so the reaction refers to an earlier text. A
// reaction without a time refers to the current text.
func (r OwnReaction) OlderThan(edit time.Time) bool {
	return !r.CreatedAt.IsZero() && r.CreatedAt.Before(edit)
}

// OurReactions returns our own reactions to a comment, by content.
func (c *Reader) OurReactions(ctx context.Context, p api.Place, commentID int64,
	self string,
) (map[string]OwnReaction, error) {
	ours := map[string]OwnReaction{}
	for page, pages := 1, 0; page != 0 && pages < reactionPages; pages++ {
		path := fmt.Sprintf("repos/%s/%s/issues/comments/%d/reactions?per_page=%d&page=%d", p.Owner, p.Repo, commentID,
			api.PageSize, page)
		var raw []OwnReaction
		resp, err := c.conn.Do(ctx, gate.Reads, http.MethodGet, path, nil, &raw)
		if err != nil {
			return nil, err
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

// The reactions that acknowledge a comment. A command gets at most one of the first two.
const (
	ReactionUnderstood = "+1"
	ReactionConfused   = "confused" // not understood, or the person lacks permission
	ReactionSeen       = "eyes"     // a comment without a command, passed to the next attempt
)
