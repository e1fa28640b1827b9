package github

import (
	"context"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/github/gate"
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
	Withdrawn   string // why nobody wants it any more; empty: somebody does. Nothing was changed then.
}

// deliveredPage is what pages/delivered.md shows.
type deliveredPage struct {
	DeliverRequest
	Shown int    // the pull request, 0 if there is none
	Page  string // of the branch
}

// Deliver opens the pull request if one is wanted (or finds it by its head branch) and has it say what this
// delivery says, takes the labels from claimed to review and makes the claim comment the report. That comment
// comes last, with the claimed label: unless the pull request is watched, its marker then says that the claim
// has ended, and a repetition changes nothing but that label.
func (c *Client) Deliver(ctx context.Context, req DeliverRequest) (Delivered, error) {
	if err := c.checkWrites("deliver", req.Key, zap.String("task", req.Nonce),
		zap.String("to", req.Branch)); err != nil {
		return Delivered{}, err
	}
	ctx = c.Gate.InOneGo(ctx)
	t, err := c.thread(ctx, gate.Completion, req.Key)
	if err != nil {
		return Delivered{}, err
	}
	t.adopt(c.opts.Fleet, req.Nonce)
	m := marker{kind: markClaim, Fleet: c.opts.Fleet, Nonce: req.Nonce}
	claims := t.ownComments(m)
	ended := len(claims) > 0 && claims[0].mark.Ended != ""
	branch := BranchURL(t.issue.URL, req.Branch)
	done := Delivered{URL: branch}
	var shown bool
	if !ended {
		if done.Withdrawn, shown, err = c.withdrawn(ctx, gate.Completion, t.place, t.issue); err != nil ||
			done.Withdrawn != "" {
			return done, err
		}
	}
	if req.PullRequest {
		if done, err = c.pullRequest(ctx, t, req, ended); err != nil {
			return Delivered{}, err
		}
	}
	if ended {
		return done, c.finishReview(ctx, t)
	}
	if !req.Watch {
		m.Ended = endedDelivered
	}
	todo := bundle{mark: m, text: c.page("delivered", deliveredPage{req, done.PullRequest, branch})}
	if len(claims) > 0 {
		todo.mark.Run, todo.edit = claims[0].mark.Run, &claims[0]
	}
	if !shown {
		if t, err = c.toReview(ctx, t, todo); err != nil {
			return Delivered{}, err
		}
	}
	if todo.edit == nil {
		_, err = c.post(ctx, gate.Completion, t, todo.mark, todo.text)
	} else {
		_, err = c.edit(ctx, gate.Completion, t.place, *todo.edit, todo.mark, todo.text)
	}
	c.claims.drop(req.Key + " " + req.Nonce)
	return done, err
}

// Withdrawn says why nobody wants a delivery any more, as Deliver would; empty: somebody does, or it was shown
// already. As long as the issue has the labels that it should have, it costs no request.
func (c *Client) Withdrawn(ctx context.Context, i Issue) (why string, err error) {
	p, err := parseKey(i.Key)
	if err != nil {
		return "", err
	}
	why, _, err = c.withdrawn(ctx, gate.Completion, p, i)
	return why, err
}

// withdrawn decides what it means for a delivery that an issue has neither the claimed nor the review label: a
// person has taken the first one off and nobody wants the work any more, or the other one, which was on
// (shown).
func (c *Client) withdrawn(ctx context.Context, l gate.Lane, p place, i Issue) (why string, shown bool, err error) {
	if !c.movedAway(thread{issue: i}, c.labels.Review) {
		return "", false, nil
	}
	if c.isOffered(i) {
		return "the issue was offered again as a new task", false, nil
	}
	h, err := c.labelHistory(ctx, l, p)
	if err == nil && h.takenOff(c.labels.Claimed) >= 0 {
		why = "the label " + c.labels.Claimed + " was removed"
	}
	return why, err == nil && h.takenOff(c.labels.Review) >= 0, err
}

// Settled returns what a delivery has led to that nothing is to be added to: its pull request and that one's
// head, if it was merged or closed, or what there is of a claim that has ended. Without either the URL is
// empty.
func (c *Client) Settled(ctx context.Context, req DeliverRequest) (_ Delivered, head string, _ error) {
	t, err := c.thread(ctx, gate.Completion, req.Key)
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
