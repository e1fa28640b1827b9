package github

import (
	"context"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"
)

// DeliverRequest hands a task's work over for review. The branch is on the remote already.
type DeliverRequest struct {
	Key, Nonce   string
	Branch, Base string
	Title        string // of a new pull request; what people made of it later stays
	PullRequest  bool
	Draft        bool // not validated as it stands: a draft pull request, and Note says why
	Watch        bool // the claim goes on while the pull request is watched: its marker does not end
	Number       int  // pull request of an earlier delivery of this claim; 0: none

	// What the pull request says. Everything is optional.
	Note     string        // one line above the rest, e.g. why it is a draft
	Summary  string        // what was changed, in the agent's own words
	Checks   []CheckLine   // ours, that passed
	Clean    bool          // they ran in a container without an agent, on what is delivered
	Attempts []AttemptLine // what failed before
	Answers  []AnswerLine  // what people said, oldest first
	Usage    UsageLine
}

// CheckLine is a check of ours that passed.
type CheckLine struct {
	Stage   string
	Command []string // argument vector
	Took    time.Duration
}

// AnswerLine is what a person said to a question, or unasked.
type AnswerLine struct {
	By   string // login
	At   time.Time
	Text string
}

// UsageLine is what the work has used. What is 0 is not shown.
type UsageLine struct {
	Attempts          int
	Tokens, PaidCalls int64
	CostUSD           float64
}

// Delivered is what a delivery led to.
type Delivered struct {
	PullRequest int    // 0: none
	URL         string // of the pull request, else of the branch
}

// deliveredPage is what pages/delivered.md shows.
type deliveredPage struct {
	DeliverRequest
	Shown int    // the pull request, 0 if there is none
	Page  string // of the branch
}

// Deliver opens the pull request if one is wanted (or finds it by its head branch) and has it say what this delivery says, takes
// the labels from claimed to review and makes the claim comment the report. That comment comes last: unless the pull request
// is watched, its marker then says that the claim has ended, and a repetition changes nothing.
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
	branch := BranchURL(t.issue.URL, req.Branch)
	done := Delivered{URL: branch}
	if req.PullRequest {
		if done, err = c.pullRequest(ctx, t, req, ended); err != nil {
			return Delivered{}, err
		}
	}
	if ended {
		return done, nil
	}
	if err := c.moveLabels(ctx, laneCompletion, t, c.labels.Review, false); err != nil {
		return Delivered{}, err
	}
	if !req.Watch {
		m.Ended = endedDelivered
	}
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

// Settled returns what a delivery has led to that nothing is to be added to: its pull request and that one's head, if it was merged or closed, or
// what there is of a claim that has ended. Without either the URL is empty.
func (c *Client) Settled(ctx context.Context, req DeliverRequest) (_ Delivered, head string, _ error) {
	t, err := c.thread(ctx, laneCompletion, req.Key)
	if err != nil {
		return Delivered{}, "", err
	}
	if req.PullRequest {
		pr, err := c.ownPullRequest(ctx, t, req)
		if err != nil {
			return Delivered{}, "", err
		}
		if pr != nil && pr.GetState() != "open" {
			return Delivered{PullRequest: pr.GetNumber(), URL: pr.GetHTMLURL()}, pr.GetHead().GetSHA(), nil
		}
	}
	claims := t.ownComments(marker{kind: markClaim, Fleet: c.opts.Fleet, Nonce: req.Nonce})
	if len(claims) == 0 || claims[0].mark.Ended == "" {
		return Delivered{}, "", nil
	}
	return Delivered{URL: BranchURL(t.issue.URL, req.Branch)}, "", nil
}

// BranchURL is the page of a branch, derived from the page of an issue of the same repository.
func BranchURL(issueURL, branch string) string {
	repo, _, _ := strings.Cut(issueURL, "/issues/")
	parts := strings.Split(branch, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return repo + "/tree/" + strings.Join(parts, "/")
}
