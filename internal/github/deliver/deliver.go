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

// Deliveries publishes work for review, and reads the state of the review.
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

// Request describes a delivery. The branch must be on the remote.
type Request struct {
	Key, Nonce   string
	Branch, Base string
	Title        string // title of a new pull request; later deliveries do not change it
	PullRequest  bool
	Draft        bool // opens a draft; Note or Asked explains why
	Watch        bool // the director watches the pull request, so the claim does not end
	Number       int  // pull request of an earlier delivery of this claim, or 0

	// The text of the pull request. All fields are optional.
	Note      string              // one line above the rest, e.g. why it is a draft
	Asked     []pages.AskedLine   // files that control people's or agents' tools
	AskedMore int                 // further such files
	Summary   string              // the agent's description of the changes
	Checks    []pages.CheckLine   // our checks that passed
	Clean     bool                // Checks ran on the delivered work, in a container without an agent
	Attempts  []pages.AttemptLine // earlier failures
	Answers   []pages.AnswerLine  // answers from people, oldest first
	Usage     pages.UsageLine
}

// Delivered is the result of a delivery.
type Delivered struct {
	PullRequest int    // or 0
	URL         string // URL of the pull request, or else of the branch
	Withdrawn   string // why the work is no longer wanted, or empty; if set, Deliver left GitHub unchanged
}

// DeliveredPage is the data of pages/delivered.md.
type DeliveredPage struct {
	Request
	Shown int    // pull request number, or 0
	Page  string // URL of the branch
}

// Deliver creates or updates the pull request if Request.PullRequest is set. It finds an existing one by its number or
// head branch. It replaces the claimed label with the review label, and turns the claim comment into the report. The
// comment is edited last, together with removing the claimed label, because its new marker ends the claim unless the
// pull request is watched. After that, a repeated call only removes the claimed label.
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

// Withdrawn returns why people no longer want a delivery, or "", like Delivered.Withdrawn. It does not send requests if
// the issue has the claimed or the review label.
func (c *Deliveries) Withdrawn(ctx context.Context, i tracker.Issue) (why string, err error) {
	p, err := api.ParseKey(i.Key)
	if err != nil {
		return "", err
	}
	why, _, err = c.withdrawn(ctx, gate.Completion, p, i)
	return why, err
}

// withdrawn finds out why an issue has lost both the claimed and the review label. If a person removed the claimed
// label, the work is not wanted, and why is not empty. If a person removed the review label, an earlier call already
// delivered the work, and shown is true.
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

// Settled returns the result of a completed delivery. If the pull request was merged or closed,
// Settled returns the pull request and the SHA of its head. If only the claim has ended, it returns the address of the
// branch. Otherwise the result is zero.
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
