package deliver

import (
	"context"
	"net/http"
	"slices"

	gh "github.com/google/go-github/v60/github"
	"go.uber.org/zap"

	"retake/internal/github/api"
	"retake/internal/github/gate"
)

// DeleteUnshown is like DeleteBranch, but keeps a branch that has ever been the head of a pull request.
func (c *Deliveries) DeleteUnshown(ctx context.Context, repo, branch, sha string) error {
	p, err := api.ParseRepo(repo)
	if err != nil {
		return err
	}
	pulls, _, err := c.conn.Lane(gate.Completion).PullRequests.List(ctx, p.Owner, p.Repo,
		&gh.PullRequestListOptions{State: "all", Head: p.Owner + ":" + branch})
	if err != nil || slices.ContainsFunc(pulls,
		func(pr *gh.PullRequest) bool { return pr.GetHead().GetRef() == branch }) {
		return api.Normalize(err)
	}
	return c.DeleteBranch(ctx, repo, branch, sha)
}

// DeleteBranch deletes a branch if it still points to sha and is not protected. A missing branch is not an error, and
// neither is a branch that DeleteBranch keeps.
func (c *Deliveries) DeleteBranch(ctx context.Context, repo, branch, sha string) error {
	if err := c.conn.CheckWrites("delete branch", repo, zap.String("to", branch)); err != nil {
		return err
	}
	p, err := api.ParseRepo(repo)
	if err != nil {
		return err
	}
	ref, _, err := c.conn.Lane(gate.Completion).Git.GetRef(ctx, p.Owner, p.Repo, "heads/"+branch)
	if err != nil {
		return api.UnlessGone(err)
	}
	if now := ref.GetObject().GetSHA(); now != sha {
		c.conn.Log.Info("kept a branch that has moved", zap.String("to", branch),
			zap.String("reason", "it points to "+now))
		return nil
	}
	_, err = c.conn.Lane(gate.Completion).Git.DeleteRef(ctx, p.Owner, p.Repo, "heads/"+branch)
	err = api.UnlessGone(err)
	if api.StatusOf(err) != http.StatusUnprocessableEntity {
		return err
	}
	if _, _, again := c.conn.Lane(gate.Completion).Git.GetRef(ctx, p.Owner, p.Repo, "heads/"+
		branch); api.IsGone(api.Normalize(again)) {
		return nil // another client deleted it first
	}
	c.conn.Log.Info("kept a branch", zap.String("to", branch), zap.String("reason", api.Detail(err).Message))
	return nil
}
