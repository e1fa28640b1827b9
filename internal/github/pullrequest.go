package github

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/gate"
)

// pullRequest finds the task's pull request and brings it up to date, or creates it. Once the claim has ended
// it is left as it is.
func (c *Client) pullRequest(ctx context.Context, t thread, req DeliverRequest, ended bool) (Delivered, error) {
	pr, err := c.ownPullRequest(ctx, t, req)
	if err == nil && pr == nil && ended {
		return Delivered{}, nil
	}
	if err == nil && pr == nil {
		pr, err = c.createPullRequest(ctx, t, req)
	} else if err == nil && !ended {
		err = c.updatePullRequest(ctx, t, req, pr)
	}
	if err != nil {
		return Delivered{}, err
	}
	return Delivered{PullRequest: pr.GetNumber(), URL: pr.GetHTMLURL()}, nil
}

// ownPullRequest is that of an earlier delivery, or the one with our head; nil if there is none. An open one
// with the same head is it; a closed one only if our marker in its body names this claim: a human closed it and
// it stays closed.
func (c *Client) ownPullRequest(ctx context.Context, t thread, req DeliverRequest) (*gh.PullRequest, error) {
	if req.Number > 0 {
		pr, _, err := c.lanes[gate.Completion].PullRequests.Get(ctx, t.owner, t.repo, req.Number)
		return pr, normalize(err)
	}
	raw, _, err := c.lanes[gate.Completion].PullRequests.List(ctx, t.owner, t.repo, &gh.PullRequestListOptions{
		State: "all", Head: t.owner + ":" + req.Branch, ListOptions: gh.ListOptions{PerPage: pageSize},
	})
	if err != nil {
		return nil, normalize(err)
	}
	for _, pr := range raw {
		open := pr.GetState() == "open" && pr.GetBase().GetRef() == req.Base
		if pr.GetHead().GetRef() == req.Branch && (open || c.wroteBody(t, req, pr)) {
			return pr, nil
		}
	}
	return nil, nil
}

// wroteBody reports whether the text of a pull request is ours, of this claim. Who wants to write it himself
// deletes the marker.
func (c *Client) wroteBody(t thread, req DeliverRequest, pr *gh.PullRequest) bool {
	mark, marked := readMarker(pr.GetBody())
	return marked && mark == c.deliveryMark(req) && strings.EqualFold(pr.GetUser().GetLogin(), t.self)
}

func (c *Client) deliveryMark(req DeliverRequest) marker {
	return marker{kind: markDelivery, Fleet: c.opts.Fleet, Nonce: req.Nonce}
}

func (c *Client) createPullRequest(ctx context.Context, t thread, req DeliverRequest) (*gh.PullRequest, error) {
	body, err := c.pullRequestBody(t, req)
	if err != nil {
		return nil, err
	}
	title := cmp.Or(c.redactor().title(req.Title), fmt.Sprintf("Retake: issue %d", t.number))
	fresh := &gh.NewPullRequest{Title: &title, Head: &req.Branch, Base: &req.Base, Body: &body}
	if req.Draft {
		fresh.Draft = &req.Draft
	}
	pr, _, err := c.lanes[gate.Completion].PullRequests.Create(ctx, t.owner, t.repo, fresh)
	err = accepted(pr.GetNumber(), "the pull request of "+req.Branch, err)
	if statusOf(err) != http.StatusUnprocessableEntity {
		return pr, err
	}
	if found, again := c.ownPullRequest(ctx, t, req); again == nil && found != nil {
		return found, nil // somebody was faster
	}
	if req.Draft && strings.Contains(strings.ToLower(detail(err).Message), "draft pull requests are not supported") {
		fresh.Draft = nil // by this repository's plan; the text still says why it would be one
		pr, _, err = c.lanes[gate.Completion].PullRequests.Create(ctx, t.owner, t.repo, fresh)
	}
	return pr, accepted(pr.GetNumber(), "the pull request of "+req.Branch, err)
}

// updatePullRequest rewrites our own text of an open pull request and makes a draft ready. Its title, and a
// text that somebody else has written, are left alone.
func (c *Client) updatePullRequest(ctx context.Context, t thread, req DeliverRequest, pr *gh.PullRequest) error {
	if pr.GetState() != "open" || !c.wroteBody(t, req, pr) {
		return nil
	}
	body, err := c.pullRequestBody(t, req)
	if err != nil {
		return err
	}
	if !sameText(body, pr.GetBody()) {
		edited, _, err := c.lanes[gate.Completion].PullRequests.Edit(ctx, t.owner, t.repo, pr.GetNumber(),
			&gh.PullRequest{Body: &body})
		if err = accepted(edited.GetNumber(), "the text of the pull request of "+req.Branch, err); err != nil {
			return err
		}
	}
	if pr.GetDraft() && !req.Draft {
		return c.markReady(ctx, pr)
	}
	return nil
}

// pullRequestPage is what pages/pullrequest.md shows.
type pullRequestPage struct {
	DeliverRequest
	Issue int
}

func (c *Client) pullRequestBody(t thread, req DeliverRequest) (string, error) {
	// It may become the message of a commit, when the pull request is merged.
	return withMarker(c.deliveryMark(req), c.messagePage("pullrequest", pullRequestPage{req, t.number}))
}

const readyMutation = `mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } } }`

// markReady ends the draft state, for which REST has no call.
func (c *Client) markReady(ctx context.Context, pr *gh.PullRequest) error {
	var answer struct {
		Data struct {
			Ready struct {
				PullRequest struct {
					IsDraft bool `json:"isDraft"`
				} `json:"pullRequest"`
			} `json:"markPullRequestReadyForReview"`
		} `json:"data"`
		Errors []struct{ Type, Message string } `json:"errors"`
	}
	ask := map[string]any{"query": readyMutation, "variables": map[string]string{"id": pr.GetNodeID()}}
	l := c.lanes[gate.Completion]
	r, err := l.NewRequest(http.MethodPost, c.graphql, ask)
	if err == nil {
		_, err = l.Do(ctx, r, &answer)
	}
	switch {
	case err != nil:
		return normalize(err)
	case len(answer.Errors) > 0:
		return permanent("pull request #%d stays a draft: %s: mark it as ready for review by hand", pr.GetNumber(),
			clip(plain(answer.Errors[0].Message), messageLimit))
	case answer.Data.Ready.PullRequest.IsDraft:
		return transient(fmt.Sprintf("pull request #%d is still a draft", pr.GetNumber()), nil)
	}
	return nil
}
