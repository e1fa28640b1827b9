package github

import (
	"context"
	"net/http"

	"go.uber.org/zap"
)

// DeleteBranch removes a branch that is not needed any more, if it still points to sha. One that is gone is fine; one to which
// somebody has pushed since stays, and so does one that GitHub protects.
func (c *Client) DeleteBranch(ctx context.Context, repo, branch, sha string) error {
	if err := c.checkWrites("delete branch", repo, zap.String("to", branch)); err != nil {
		return err
	}
	p, err := parseRepo(repo)
	if err != nil {
		return err
	}
	ref, _, err := c.lanes[laneCompletion].Git.GetRef(ctx, p.owner, p.repo, "heads/"+branch)
	if err != nil {
		return unlessGone(err)
	}
	if now := ref.GetObject().GetSHA(); now != sha {
		c.log.Info("the branch has moved and stays", zap.String("to", branch), zap.String("reason", "it points to "+now))
		return nil
	}
	_, err = c.lanes[laneCompletion].Git.DeleteRef(ctx, p.owner, p.repo, "heads/"+branch)
	err = unlessGone(err)
	if statusOf(err) != http.StatusUnprocessableEntity {
		return err
	}
	if _, _, again := c.lanes[laneCompletion].Git.GetRef(ctx, p.owner, p.repo, "heads/"+branch); isGone(normalize(again)) {
		return nil // somebody was faster
	}
	c.log.Info("the branch stays", zap.String("to", branch), zap.String("reason", detail(err).Message))
	return nil
}
