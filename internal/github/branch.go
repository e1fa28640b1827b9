package github

import (
	"context"
	"net/http"
	"slices"

	gh "github.com/google/go-github/v60/github"
	"go.uber.org/zap"

	"retake/internal/github/gate"
)

// HasBranch fails with a permanent *Error if a repository lacks a branch: naming it is a matter of configuration.
func (c *Client) HasBranch(ctx context.Context, repo, branch string) error {
	p, err := parseRepo(repo)
	if err != nil {
		return err
	}
	_, _, err = c.lanes[gate.Reads].Git.GetRef(ctx, p.owner, p.repo, "heads/"+branch)
	if err = normalize(err); !isGone(err) {
		return err
	}
	about, _, err := c.lanes[gate.Reads].Repositories.Get(ctx, p.owner, p.repo)
	if err != nil {
		return normalize(err) // it is the repository that is not there
	}
	return permanent("%s has no branch %s: set github.base_branch to the branch that work starts from (its default "+
		"branch is %s)", repo, branch, about.GetDefaultBranch())
}

// DeleteUnshown deletes a branch as DeleteBranch does, unless it is that of a pull request, whatever became of that.
func (c *Client) DeleteUnshown(ctx context.Context, repo, branch, sha string) error {
	p, err := parseRepo(repo)
	if err != nil {
		return err
	}
	pulls, _, err := c.lanes[gate.Completion].PullRequests.List(ctx, p.owner, p.repo,
		&gh.PullRequestListOptions{State: "all", Head: p.owner + ":" + branch})
	if err != nil || slices.ContainsFunc(pulls,
		func(pr *gh.PullRequest) bool { return pr.GetHead().GetRef() == branch }) {
		return normalize(err)
	}
	return c.DeleteBranch(ctx, repo, branch, sha)
}

// DeleteBranch removes a branch that is not needed any more, if it still points to sha. One that is gone is
// fine; one to which somebody has pushed since stays, and so does one that GitHub protects.
func (c *Client) DeleteBranch(ctx context.Context, repo, branch, sha string) error {
	if err := c.checkWrites("delete branch", repo, zap.String("to", branch)); err != nil {
		return err
	}
	p, err := parseRepo(repo)
	if err != nil {
		return err
	}
	ref, _, err := c.lanes[gate.Completion].Git.GetRef(ctx, p.owner, p.repo, "heads/"+branch)
	if err != nil {
		return unlessGone(err)
	}
	if now := ref.GetObject().GetSHA(); now != sha {
		c.log.Info("the branch has moved and stays", zap.String("to", branch),
			zap.String("reason", "it points to "+now))
		return nil
	}
	_, err = c.lanes[gate.Completion].Git.DeleteRef(ctx, p.owner, p.repo, "heads/"+branch)
	err = unlessGone(err)
	if statusOf(err) != http.StatusUnprocessableEntity {
		return err
	}
	if _, _, again := c.lanes[gate.Completion].Git.GetRef(ctx, p.owner, p.repo, "heads/"+
		branch); isGone(normalize(again)) {
		return nil // somebody was faster
	}
	c.log.Info("the branch stays", zap.String("to", branch), zap.String("reason", detail(err).Message))
	return nil
}
