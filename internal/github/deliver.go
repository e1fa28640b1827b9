package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	gh "github.com/google/go-github/v60/github"
	"go.uber.org/zap"
)

// DeliverRequest hands a finished task over for review. The branch is on the remote already.
type DeliverRequest struct {
	Key, Nonce   string
	Branch, Base string
	Title, Body  string // of the pull request
	PullRequest  bool
	Summary      string        // for the final progress text
	Attempts     []AttemptLine // for the final progress text
}

// Delivered is what a delivery led to.
type Delivered struct {
	PullRequest int    // 0: none
	URL         string // of the pull request, else of the branch
}

// deliveredPage is what pages/delivered.md shows.
type deliveredPage struct {
	DeliverRequest
	PullRequest int
	Page        string // of the branch
}

// Deliver opens the pull request if one is wanted (or finds it by its head branch), takes the labels from claimed to
// review and makes the claim comment the final report. That comment comes last: its marker then says that the claim has
// ended, and a repetition changes nothing.
func (c *Client) Deliver(ctx context.Context, req DeliverRequest) (Delivered, error) {
	if err := c.checkWrites("deliver", req.Key, zap.String("task", req.Nonce), zap.String("to", req.Branch)); err != nil {
		return Delivered{}, err
	}
	t, err := c.thread(ctx, laneCompletion, req.Key)
	if err != nil {
		return Delivered{}, err
	}
	m := marker{kind: markClaim, Fleet: c.opts.Fleet, Nonce: req.Nonce}
	claims := t.ownComments(m)
	ended := len(claims) > 0 && claims[0].mark.Ended != ""
	branch := branchURL(t.issue.URL, req.Branch)
	done := Delivered{URL: branch}
	if req.PullRequest {
		if done, err = c.pullRequest(ctx, t, req, !ended); err != nil {
			return Delivered{}, err
		}
	}
	if ended {
		return done, nil
	}
	if err := c.moveLabels(ctx, laneCompletion, t, c.labels.Review, false); err != nil {
		return Delivered{}, err
	}
	m.Ended = endedDelivered
	text := c.page("delivered", deliveredPage{req, done.PullRequest, branch})
	if len(claims) == 0 {
		_, err = c.post(ctx, laneCompletion, t, m, text)
	} else {
		m.Run = claims[0].mark.Run
		_, err = c.edit(ctx, laneCompletion, t.place, claims[0], m, text)
	}
	c.claims.drop(req.Key + " " + req.Nonce)
	return done, err
}

// pullRequest finds the task's pull request, or creates it if it may. An open one with the same head is it; a closed one
// only if our marker in its body names this claim: a human closed it and it stays closed.
func (c *Client) pullRequest(ctx context.Context, t thread, req DeliverRequest, create bool) (Delivered, error) {
	m := marker{kind: markDelivery, Fleet: c.opts.Fleet, Nonce: req.Nonce}
	found, ok, err := c.findPullRequest(ctx, t, req, m)
	if err != nil || ok || !create {
		return found, err
	}
	r := c.redactor()
	body, err := withMarker(m, fmt.Sprintf("Refs #%d\n\n%s", t.number, noClosing(r.last(req.Body, 40_000))))
	if err != nil {
		return Delivered{}, err
	}
	title := noClosing(r.line(req.Title, 200))
	if title == "" {
		title = fmt.Sprintf("Retake: issue %d", t.number)
	}
	pr, _, err := c.lanes[laneCompletion].PullRequests.Create(ctx, t.owner, t.repo, &gh.NewPullRequest{
		Title: &title, Head: &req.Branch, Base: &req.Base, Body: &body,
	})
	if err = normalize(err); statusOf(err) == http.StatusUnprocessableEntity {
		if found, ok, again := c.findPullRequest(ctx, t, req, m); again == nil && ok {
			return found, nil // somebody was faster
		}
	}
	if err != nil {
		return Delivered{}, err
	}
	return Delivered{PullRequest: pr.GetNumber(), URL: pr.GetHTMLURL()}, nil
}

func (c *Client) findPullRequest(ctx context.Context, t thread, req DeliverRequest, m marker) (Delivered, bool, error) {
	raw, _, err := c.lanes[laneCompletion].PullRequests.List(ctx, t.owner, t.repo, &gh.PullRequestListOptions{
		State: "all", Head: t.owner + ":" + req.Branch, ListOptions: gh.ListOptions{PerPage: pageSize},
	})
	if err != nil {
		return Delivered{}, false, normalize(err)
	}
	for _, pr := range raw {
		if pr.GetHead().GetRef() != req.Branch {
			continue
		}
		mark, marked := readMarker(pr.GetBody())
		ours := marked && mark == m && strings.EqualFold(pr.GetUser().GetLogin(), t.self)
		if ours || pr.GetState() == "open" && pr.GetBase().GetRef() == req.Base {
			return Delivered{PullRequest: pr.GetNumber(), URL: pr.GetHTMLURL()}, true, nil
		}
	}
	return Delivered{}, false, nil
}

// branchURL is the page of a branch, derived from the page of an issue of the same repository.
func branchURL(issueURL, branch string) string {
	repo, _, _ := strings.Cut(issueURL, "/issues/")
	parts := strings.Split(branch, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return repo + "/tree/" + strings.Join(parts, "/")
}
