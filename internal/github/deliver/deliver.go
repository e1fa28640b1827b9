package deliver

import (
	"context"

	"go.uber.org/zap"

	"retake/internal/github/api"
	"retake/internal/github/claims"
	"retake/internal/github/gate"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
)

// Deliveries hands work over for review, and reads what became of it.
type Deliveries struct {
	conn   *api.Conn
	read   *tracker.Reader
	write  *tracker.Writer
	text   *pages.Text
	claims *claims.Claims
}

// New returns a Deliveries.
func New(conn *api.Conn, read *tracker.Reader, write *tracker.Writer, text *pages.Text,
	claims *claims.Claims,
) *Deliveries {
	return &Deliveries{conn, read, write, text, claims}
}

// Request hands a task's work over for review. The branch is on the remote already.
type Request struct {
	Key, Nonce   string
	Branch, Base string
	Title        string // of a new pull request; what people made of it later stays
	PullRequest  bool
	Draft        bool // not validated as it stands: a draft pull request, and Note says why
	Watch        bool // the claim goes on while the pull request is watched: its marker does not end
	Number       int  // pull request of an earlier delivery of this claim; 0: none

	// What the pull request says. Everything is optional.
	Note     string              // one line above the rest, e.g. why it is a draft
	Summary  string              // what was changed, in the agent's own words
	Checks   []pages.CheckLine   // ours, that passed
	Clean    bool                // they ran in a container without an agent, on what is delivered
	Attempts []pages.AttemptLine // what failed before
	Answers  []pages.AnswerLine  // what people said, oldest first
	Usage    pages.UsageLine
}

// Delivered is what a delivery led to.
type Delivered struct {
	PullRequest int    // 0: none
	URL         string // of the pull request, else of the branch
	Withdrawn   string // why nobody wants it any more; empty: somebody does. Nothing was changed then.
}

// DeliveredPage is what pages/delivered.md shows.
type DeliveredPage struct {
	Request
	Shown int    // the pull request, 0 if there is none
	Page  string // of the branch
}

// Deliver opens the pull request if one is wanted (or finds it by its head branch) and has it say what this
// delivery says, takes the labels from claimed to review and makes the claim comment the report. That comment
// comes last, with the claimed label: unless the pull request is watched, its marker then says that the claim
// has ended, and a repetition changes nothing but that label.
func (c *Deliveries) Deliver(ctx context.Context, req Request) (Delivered, error) {
	if err := c.conn.CheckWrites("deliver", req.Key, zap.String("task", req.Nonce),
		zap.String("to", req.Branch)); err != nil {
		return Delivered{}, err
	}
	ctx = c.conn.Gate.InOneGo(ctx)
	t, err := c.read.Thread(ctx, gate.Completion, req.Key)
	if err != nil {
		return Delivered{}, err
	}
	t.Adopt(c.read.Fleet, req.Nonce)
	m := tracker.Marker{Kind: tracker.MarkClaim, Fleet: c.read.Fleet, Nonce: req.Nonce}
	claims := t.OwnComments(m)
	ended := len(claims) > 0 && claims[0].Mark.Ended != ""
	branch := pages.BranchURL(t.Issue.URL, req.Branch)
	done := Delivered{URL: branch}
	var shown bool
	if !ended {
		if done.Withdrawn, shown, err = c.withdrawn(ctx, gate.Completion, t.Place, t.Issue); err != nil ||
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
		m.Ended = tracker.EndedDelivered
	}
	todo := tracker.Bundle{Mark: m, Text: c.text.Page("delivered", DeliveredPage{req, done.PullRequest, branch})}
	if len(claims) > 0 {
		todo.Mark.Run, todo.Edit = claims[0].Mark.Run, &claims[0]
	}
	if !shown {
		if t, err = c.toReview(ctx, t, todo); err != nil {
			return Delivered{}, err
		}
	}
	if todo.Edit == nil {
		_, err = c.write.Post(ctx, gate.Completion, t, todo.Mark, todo.Text)
	} else {
		_, err = c.write.Edit(ctx, gate.Completion, t.Place, *todo.Edit, todo.Mark, todo.Text)
	}
	c.claims.Forget(req.Key, req.Nonce)
	return done, err
}

// Withdrawn says why nobody wants a delivery any more, as Deliver would; empty: somebody does, or it was shown
// already. As long as the issue has the labels that it should have, it costs no request.
func (c *Deliveries) Withdrawn(ctx context.Context, i tracker.Issue) (why string, err error) {
	p, err := api.ParseKey(i.Key)
	if err != nil {
		return "", err
	}
	why, _, err = c.withdrawn(ctx, gate.Completion, p, i)
	return why, err
}

// withdrawn decides what it means for a delivery that an issue has neither the claimed nor the review label: a
// person has taken the first one off and nobody wants the work any more, or the other one, which was on
// (shown).
func (c *Deliveries) withdrawn(ctx context.Context, l gate.Lane, p api.Place, i tracker.Issue) (why string, shown bool,
	err error,
) {
	if !c.write.MovedAway(tracker.Thread{Issue: i}, c.read.Labels.Review) {
		return "", false, nil
	}
	if i.IsOffered(c.read.Labels) {
		return "the issue was offered again as a new task", false, nil
	}
	h, err := c.read.LabelHistory(ctx, l, p)
	if err == nil && h.TakenOff(c.read.Labels.Claimed) >= 0 {
		why = "the label " + c.read.Labels.Claimed + " was removed"
	}
	return why, err == nil && h.TakenOff(c.read.Labels.Review) >= 0, err
}

// Settled returns what a delivery has led to that nothing is to be added to: its pull request and that one's
// head, if it was merged or closed, or what there is of a claim that has ended. Without either the URL is
// empty.
func (c *Deliveries) Settled(ctx context.Context, req Request) (_ Delivered, head string, _ error) {
	t, err := c.read.Thread(ctx, gate.Completion, req.Key)
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
	claims := t.OwnComments(tracker.Marker{Kind: tracker.MarkClaim, Fleet: c.read.Fleet, Nonce: req.Nonce})
	if len(claims) == 0 || claims[0].Mark.Ended == "" {
		return Delivered{}, "", nil
	}
	return Delivered{URL: pages.BranchURL(t.Issue.URL, req.Branch)}, "", nil
}
