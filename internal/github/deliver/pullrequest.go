package deliver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	gh "github.com/google/go-github/v60/github"

	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/prose"
	"retake/internal/github/tracker"
)

// pullRequest updates the task's pull request, or creates it if it does not exist. If ended is true, it only finds the
// pull request.
func (c *Deliveries) pullRequest(ctx context.Context, t tracker.Thread, req Request, ended bool) (Delivered, error) {
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

// ownPullRequest returns the pull request of an earlier delivery, or the pull request with our head branch, or nil. A
// closed pull request counts only if its body has this claim's marker. A person has closed it, so it stays closed.
func (c *Deliveries) ownPullRequest(ctx context.Context, t tracker.Thread, req Request) (*gh.PullRequest, error) {
	if req.Number > 0 {
		pr, _, err := c.conn.Lane(gate.Completion).PullRequests.Get(ctx, t.Owner, t.Repo, req.Number)
		return pr, api.Normalize(err)
	}
	raw, _, err := c.conn.Lane(gate.Completion).PullRequests.List(ctx, t.Owner, t.Repo, &gh.PullRequestListOptions{
		State: "all", Head: t.Owner + ":" + req.Branch, ListOptions: gh.ListOptions{PerPage: api.PageSize},
	})
	if err != nil {
		return nil, api.Normalize(err)
	}
	for _, pr := range raw {
		open := pr.GetState() == "open" && pr.GetBase().GetRef() == req.Base
		if pr.GetHead().GetRef() == req.Branch && (open || c.wroteBody(t, req, pr)) {
			return pr, nil
		}
	}
	return nil, nil
}

// wroteBody reports whether this claim wrote the text of a pull request, according to its marker. A person can delete
// the marker to stop Retake from changing the text.
func (c *Deliveries) wroteBody(t tracker.Thread, req Request, pr *gh.PullRequest) bool {
	mark, marked := tracker.ReadMarker(pr.GetBody())
	return marked && mark == c.deliveryMark(req) && strings.EqualFold(pr.GetUser().GetLogin(), t.Self)
}

func (c *Deliveries) deliveryMark(req Request) tracker.Marker {
	return tracker.Marker{Kind: tracker.MarkDelivery, Fleet: c.read.Fleet, Nonce: req.Nonce}
}

// createPullRequest creates the task's pull request through GraphQL, or through REST if GraphQL does not create it.
func (c *Deliveries) createPullRequest(ctx context.Context, t tracker.Thread, req Request) (*gh.PullRequest, error) {
	body, err := c.PullRequestBody(t, req)
	if err != nil {
		return nil, err
	}
	title := cmp.Or(c.text.Cleaner().Title(req.Title), fmt.Sprintf("Retake: issue %d", t.Number))
	fresh := &gh.NewPullRequest{Title: &title, Head: &req.Branch, Base: &req.Base, Body: &body}
	if req.Draft {
		fresh.Draft = &req.Draft
	}
	if pr, err := c.sendPullRequest(ctx, t, fresh); err != nil || pr != nil {
		return pr, err
	}
	pr, _, err := c.conn.Lane(gate.Completion).PullRequests.Create(ctx, t.Owner, t.Repo, fresh)
	err = api.Accepted(pr.GetNumber(), "the pull request for "+req.Branch, err)
	if api.StatusOf(err) != http.StatusUnprocessableEntity {
		return pr, err
	}
	if found, again := c.ownPullRequest(ctx, t, req); again == nil && found != nil {
		return found, nil // another client was faster
	}
	if req.Draft && draftsUnsupported(api.Detail(err).Message) {
		fresh.Draft = nil // the repository's plan does not support drafts; the text explains the state
		pr, _, err = c.conn.Lane(gate.Completion).PullRequests.Create(ctx, t.Owner, t.Repo, fresh)
	}
	return pr, api.Accepted(pr.GetNumber(), "the pull request for "+req.Branch, err)
}

// sendPullRequest creates a pull request through GraphQL, possibly batched with other changes. If both results are nil,
// the caller must use REST.
func (c *Deliveries) sendPullRequest(ctx context.Context, t tracker.Thread, fresh *gh.NewPullRequest) (
	*gh.PullRequest, error,
) {
	if c.write.RestAlone() {
		return nil, nil
	}
	repo, _, err := c.conn.Lane(gate.Completion).Repositories.Get(ctx, t.Owner, t.Repo)
	if err = api.Normalize(err); err != nil || repo.GetNodeID() == "" {
		return nil, err
	}
	done, err := c.write.Send(ctx, gate.Completion, t, []api.Mutation{{
		Name: "pull", Call: "createPullRequest", Want: "{ pullRequest { number url } }",
		Input: map[string]any{
			"repositoryId": repo.GetNodeID(), "baseRefName": fresh.GetBase(), "headRefName": fresh.GetHead(),
			"title": fresh.GetTitle(), "body": fresh.GetBody(), "draft": fresh.GetDraft(),
		},
	}})
	var made struct {
		PullRequest *struct {
			Number int
			URL    string
		}
	}
	if err != nil || json.Unmarshal(done["pull"], &made) != nil || made.PullRequest == nil {
		return nil, err
	}
	return &gh.PullRequest{Number: &made.PullRequest.Number, HTMLURL: &made.PullRequest.URL}, nil
}

// updatePullRequest rewrites our text in an open pull request, and marks a draft as ready for review when the request
// no longer asks for one. A new notice turns the pull request back into a draft. The title, and any text without our
// marker, stay unchanged.
func (c *Deliveries) updatePullRequest(ctx context.Context, t tracker.Thread, req Request, pr *gh.PullRequest) error {
	if pr.GetState() != "open" || !c.wroteBody(t, req, pr) {
		return nil
	}
	body, err := c.PullRequestBody(t, req)
	if err != nil {
		return err
	}
	if req.Draft && !pr.GetDraft() && newNotice(pr.GetBody(), body) { // before the edit, which hides the difference
		if err := c.setDraft(ctx, pr, true); err != nil {
			return err
		}
	}
	if !tracker.SameText(body, pr.GetBody()) {
		edited, _, err := c.conn.Lane(gate.Completion).PullRequests.Edit(ctx, t.Owner, t.Repo, pr.GetNumber(),
			&gh.PullRequest{Body: &body})
		if err = api.Accepted(edited.GetNumber(), "the pull request text for "+req.Branch, err); err != nil {
			return err
		}
	}
	if pr.GetDraft() && !req.Draft {
		return c.setDraft(ctx, pr, false)
	}
	return nil
}

// PullRequestPage is the data for pages/pullrequest.md.
type PullRequestPage struct {
	Request
	Issue int
}

// PullRequestBody returns the text of a pull request with its marker. GitHub may use it as the merge commit message.
func (c *Deliveries) PullRequestBody(t tracker.Thread, req Request) (string, error) {
	return tracker.WithMarker(c.deliveryMark(req), c.text.MessagePage("pullrequest", PullRequestPage{req, t.Number}))
}

// newNotice reports whether the notice above the issue reference has a new line. A person who marked the draft as ready
// has read only the earlier lines.
func newNotice(before, now string) bool {
	notice := func(body string) string { text, _, _ := strings.Cut(body, "Refs #"); return text }
	for line := range strings.Lines(notice(now)) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(notice(before), line) {
			return true
		}
	}
	return false
}

// GraphQL mutations that change the draft state. REST cannot change it.
const (
	readyMutation = `mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } } }`
	draftMutation = `mutation($id: ID!) { convertPullRequestToDraft(input: {pullRequestId: $id}) { pullRequest { isDraft } } }`
)

// setDraft converts a pull request to a draft, or marks it as ready for review. If the repository's plan does not
// support drafts, it does nothing.
func (c *Deliveries) setDraft(ctx context.Context, pr *gh.PullRequest, draft bool) error {
	var answer struct {
		Data map[string]*struct {
			PullRequest struct {
				IsDraft bool `json:"isDraft"`
			} `json:"pullRequest"`
		} `json:"data"`
		Errors []struct{ Type, Message string } `json:"errors"`
	}
	mutation, still, by := readyMutation, "still a draft", "mark it as ready for review"
	if draft {
		mutation, still, by = draftMutation, "not a draft", "convert it to a draft"
	}
	err := c.conn.Query(ctx, gate.Completion, mutation, map[string]string{"id": pr.GetNodeID()}, &answer)
	switch {
	case err != nil:
		return err
	case len(answer.Errors) > 0 && draft && draftsUnsupported(answer.Errors[0].Message):
		return nil
	case len(answer.Errors) > 0:
		return api.Permanent("pull request #%d is %s: %s: %s by hand", pr.GetNumber(), still,
			prose.Clip(prose.Printable(answer.Errors[0].Message), api.MessageLimit), by)
	}
	for _, done := range answer.Data {
		if done != nil && done.PullRequest.IsDraft != draft {
			return api.Transient(fmt.Sprintf("pull request #%d is %s", pr.GetNumber(), still), nil)
		}
	}
	return nil
}

// draftsUnsupported recognizes the message that the repository's plan does not support drafts.
func draftsUnsupported(message string) bool {
	return strings.Contains(strings.ToLower(message), "draft pull requests are not supported")
}
