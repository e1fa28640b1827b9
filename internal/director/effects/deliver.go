package effects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/github/deliver"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
	"retake/internal/recovery"
	"retake/internal/secrets/scope"
	"retake/internal/workspace"
)

// Values of the configuration key github.delivery.
const (
	DeliverNone        = "none"
	DeliverPullRequest = "pull_request"
)

// Delivery delivers an attempt's work, publishes unfinished work, and releases claims.
type Delivery struct {
	Setup       func() *inforce.Setup
	Contracts   *Contracts
	GitHub      *github.Client
	Workspace   *workspace.Workspaces
	Origin      Origin
	Secrets     *Secrets
	Withdrawals *Withdrawals
	Reports     func(ctx context.Context, worker string) ([]bus.Report, error) // returns an attempt's reports
	Log         *zap.Logger
}

// Deliver commits and pushes the work, and shows it on the issue or in a pull request. If the work first needs another
// validation, Deliver does not push, and the result gives the reason.
func (d *Delivery) Deliver(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	if d.Setup().GitHub.Delivery == DeliverNone {
		return d.keep(ctx, e)
	}
	issue, err := d.GitHub.Issues.Issue(ctx, string(e.Task))
	if why, gone := failure.IssueGone(err); gone {
		return notOurs(why)
	}
	why := ""
	if err == nil && issue.State == "open" {
		why, err = d.GitHub.Deliveries.Withdrawn(ctx, issue)
	}
	switch {
	case err != nil:
		return failure.Ended(err)
	case why != "":
		d.unpushTried(ctx, e)
		return notOurs(why)
	}
	order := e.Deliver
	if order == nil { // an earlier version of Retake planned this delivery
		order = &fsm.DeliverOrder{}
	}
	git, done := d.Withdrawals.During(ctx, e.Task)
	defer done()
	var out fsm.EffectEnded
	if issue.State == "open" {
		out = d.handIn(ctx, git, e, order, issue)
	}
	shown := out.Failure == nil && out.Delivery != nil && out.Delivery.Branch != ""
	if issue.State != "open" || IsWithdrawn(git) && !shown {
		return d.closedMeanwhile(ctx, e, d.deliverRequest(ctx, e, order, issue, workspace.Delivery{Branch: BranchOf(e)},
			""))
	}
	return out
}

// keep leaves the work in the checkout, and comments on the issue.
func (d *Delivery) keep(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	git, done := d.Withdrawals.During(ctx, e.Task)
	defer done()
	nothing, err := d.Workspace.Unchanged(git, e.Nonce)
	if err != nil && IsWithdrawn(git) {
		return d.closedMeanwhile(ctx, e, deliver.Request{Key: string(e.Task), Nonce: e.Nonce})
	}
	if nothing || err != nil {
		return failure.Or(fsm.EffectEnded{Delivery: &fsm.DeliverResult{Nothing: true}}, err)
	}
	shown, err := d.GitHub.Deliveries.Deliver(ctx, deliver.Request{Key: string(e.Task), Nonce: e.Nonce})
	if shown.Withdrawn != "" {
		return notOurs(shown.Withdrawn)
	}
	return failure.Or(fsm.EffectEnded{Delivery: &fsm.DeliverResult{}}, err)
}

// handIn delivers the work of an open issue. Git commands stop when the git context is done.
//
// If the issue has the review label, an earlier run of this effect set it, and the outcome of that run was lost. handIn
// then completes the delivery even if the base branch has moved. Another attempt would treat the missing claimed label
// as a person's decision.
func (d *Delivery) handIn(ctx, git context.Context, e fsm.Effect, order *fsm.DeliverOrder, issue tracker.Issue,
) fsm.EffectEnded {
	gh := d.Setup().GitHub
	shown := issue.Has(gh.Labels.Review) && !issue.Has(gh.Labels.Claimed)
	in, err := d.Contracts.Of(git, e)
	behind, mayValidate := "", order.Validate && len(in.ValidateStages()) > 0 && !shown
	// Without a validation, the repeated delivery needs the same draft note.
	if err == nil && (!shown || !order.Validate) {
		behind, err = d.behind(git, e)
	}
	if err != nil {
		return failure.Ended(err)
	}
	if behind != "" && mayValidate {
		return fsm.EffectEnded{Delivery: &fsm.DeliverResult{Merged: true}}
	}
	message := fmt.Sprintf("%s\n\nRefs #%d", d.GitHub.Text.CommitSubject(issue.Title, issue.Number), issue.Number)
	asked := &[]scope.Asked{}
	if gh.Delivery != DeliverPullRequest {
		asked = nil // the delivery cannot be a draft
	}
	request := d.pushRequest(e, issue, BranchOf(e), message, asked)
	if order.Validated {
		request.Validated = e.Worker
	}
	work, err := d.Workspace.Deliver(git, request)
	moved := errors.Is(err, workspace.ErrBranchMoved)
	switch {
	case moved && mayValidate:
		return fsm.EffectEnded{Delivery: &fsm.DeliverResult{Merged: true}}
	case errors.Is(err, workspace.ErrNotValidated) && mayValidate:
		d.Log.Warn("the work differs from the validated version; validating it again",
			zap.String("issue", string(e.Task)), zap.Error(err))
		return fsm.EffectEnded{Delivery: &fsm.DeliverResult{Changed: true}}
	case errors.Is(err, workspace.ErrNotValidated), moved && order.Validated:
		return fsm.EffectEnded{Failure: notValidated(err)}
	case moved:
		work, err = d.pushJoined(git, e, request)
	}
	switch {
	case errors.Is(err, workspace.ErrNothingToDeliver):
		return fsm.EffectEnded{Delivery: &fsm.DeliverResult{Nothing: true}}
	case err != nil:
		return failure.Ended(err)
	}
	to, err := d.GitHub.Deliveries.Deliver(ctx, withAsked(
		d.deliverRequest(ctx, e, order, issue, work, draftNote(in, behind, moved)), asked))
	if to.Withdrawn != "" {
		d.unpush(ctx, e, work)
		return notOurs(to.Withdrawn)
	}
	result := fsm.DeliverResult{Branch: work.Branch, SHA: work.SHA, URL: to.URL}
	if gh.Review {
		result.PullRequest = to.PullRequest
	}
	if err == nil {
		d.removeUnfinished(ctx, e)
	}
	return failure.Or(fsm.EffectEnded{Delivery: &result}, err)
}

// unpush removes the branch of a delivery that was withdrawn during the push. It leaves a branch that people could
// already see.
func (d *Delivery) unpush(ctx context.Context, e fsm.Effect, work workspace.Delivery) {
	if e.Work != nil {
		return
	}
	if err := d.GitHub.Deliveries.DeleteBranch(ctx, e.Task.Repo(), work.Branch, work.SHA); err != nil {
		d.Log.Warn("could not remove branch", zap.String("issue", string(e.Task)), zap.String("branch", work.Branch),
			zap.Error(err))
	}
}

// unpushTried removes the branches that earlier runs of this effect pushed, except branches that ever had a pull
// request.
func (d *Delivery) unpushTried(ctx context.Context, e fsm.Effect) {
	if e.Work != nil {
		return
	}
	pushed, err := d.Workspace.Pushed(e.Nonce)
	for _, branch := range slices.Sorted(maps.Keys(pushed)) {
		err = errors.Join(err, d.GitHub.Deliveries.DeleteUnshown(ctx, e.Task.Repo(), branch, pushed[branch]))
	}
	if err != nil {
		d.Log.Warn("could not remove branches", zap.String("issue", string(e.Task)), zap.Error(err))
	}
}

// closedMeanwhile returns the outcome of a delivery for a closed issue. If an earlier run of this effect has already
// shown the work on GitHub, the delivery counts, because a person may have merged the work and thereby closed the
// issue. Otherwise closedMeanwhile removes pushed branches, and reports the claim as lost.
func (d *Delivery) closedMeanwhile(ctx context.Context, e fsm.Effect, r deliver.Request) fsm.EffectEnded {
	there, head, err := d.GitHub.Deliveries.Settled(ctx, r)
	switch {
	case err != nil:
		return failure.Ended(err)
	case there.URL == "":
		d.unpushTried(ctx, e)
		return notOurs("the issue was closed")
	}
	shown, err := d.GitHub.Deliveries.Deliver(ctx, r)
	result := fsm.DeliverResult{Branch: r.Branch, SHA: head, URL: shown.URL}
	if r.Watch {
		result.PullRequest = shown.PullRequest
	}
	return failure.Or(fsm.EffectEnded{Delivery: &result}, err)
}

// behind describes how far the work is behind its base branch, or returns "" if the work can be delivered unchanged. It
// returns an error if the work conflicts with the base branch. behind does not merge: the next attempt merges and
// validates the result.
func (d *Delivery) behind(ctx context.Context, e fsm.Effect) (string, error) {
	r := d.Origin.Checkout(e.Task, e.Nonce)
	drift, err := d.Workspace.Drift(ctx, r)
	if err != nil || drift.Commits == 0 {
		return "", err
	}
	if err := d.Workspace.Mergeable(ctx, r); err != nil {
		if errors.Is(err, workspace.ErrCannotMerge) {
			d.Log.Warn("skipped the merge with the base branch", zap.String("issue", string(e.Task)),
				zap.Error(err))
			return "", nil
		}
		return "", err
	}
	if d.Setup().SyncPolicy().Reason(drift.Commits, drift.Behind) == "" {
		return "", nil
	}
	return fmt.Sprintf("%d commits behind `%s`", drift.Commits, d.Origin.BaseBranch(e.Task.Repo())), nil
}

// draftNote returns why the work does not count as validated, or "" for validated work.
func draftNote(in *inforce.Setup, behind string, moved bool) string {
	switch {
	case len(in.ValidateStages()) == 0:
		return "Not validated, because no VALIDATE stage is configured."
	case behind != "":
		return "Not validated on the current base branch: the work " +
			"is " + behind + ", and the budget for attempts is used up."
	case moved:
		return "Not validated after a merge: the work now includes commits that people pushed to this branch, and " +
			"the budget for attempts is used up."
	}
	return ""
}

// BranchOf returns the branch for a task's work: the branch that was pushed before, or a new one.
func BranchOf(e fsm.Effect) string {
	if e.Work != nil && e.Work.Branch != "" {
		return e.Work.Branch
	}
	return fsm.BranchName(e.Task, e.Attempt)
}

// pushRequest returns the request to commit the work, inspect it for secrets and forbidden changes, and push it to a
// branch. For this request the workspace returns workspace.ErrBranchMoved if people have pushed to the branch since
// Retake did.
func (d *Delivery) pushRequest(e fsm.Effect, issue tracker.Issue, branch, message string,
	asked *[]scope.Asked,
) workspace.DeliverRequest {
	request := workspace.DeliverRequest{
		Nonce: e.Nonce, RemoteURL: d.Origin.Remote(e.Task.Repo()), Branch: branch,
		BaseBranch: d.Origin.BaseBranch(e.Task.Repo()), Message: message, AuthoredAt: e.At,
		Check: d.Secrets.Inspect(e, issue.Labels, asked),
	}
	if e.Work != nil && e.Work.Branch == branch {
		request.Onto = e.Work.SHA
	}
	return request
}

// pushJoined merges the commits that people pushed to the branch into the work, and pushes the result.
func (d *Delivery) pushJoined(ctx context.Context, e fsm.Effect,
	request workspace.DeliverRequest,
) (workspace.Delivery, error) {
	if _, err := d.Workspace.Join(ctx, d.Origin.Checkout(e.Task, e.Nonce), request.Branch); err != nil {
		return workspace.Delivery{}, err
	}
	return d.Workspace.Deliver(ctx, request)
}

// deliverRequest returns the content of the pull request.
func (d *Delivery) deliverRequest(ctx context.Context, e fsm.Effect, order *fsm.DeliverOrder, issue tracker.Issue,
	work workspace.Delivery, note string,
) deliver.Request {
	gh := d.Setup().For(e.Task.Repo()).GitHub
	summary, checks := d.whatWorkersSaid(ctx, e)
	if note != "" {
		checks = nil // the checks passed on another version of the work
	}
	r := deliver.Request{
		Key: string(e.Task), Nonce: e.Nonce, Branch: work.Branch, Base: gh.BaseBranch, Title: issue.Title,
		PullRequest: gh.Delivery == DeliverPullRequest, Watch: gh.Review && gh.Delivery == DeliverPullRequest,
		Draft: note != "", Note: note,
		Summary: summary, Checks: checks, Clean: order.Validated,
		Attempts: failedLines(e.Failures, e.Work != nil && e.Work.PullRequest > 0),
		Usage: pages.UsageLine{
			Attempts: e.Attempt, Tokens: order.Spent.Tokens, PaidCalls: order.Spent.PaidCalls,
			CostUSD: order.Spent.CostUSD,
		},
	}
	if e.Work != nil {
		r.Number = e.Work.PullRequest
	}
	for _, h := range order.Hints {
		r.Answers = append(r.Answers, pages.AnswerLine{By: h.From, At: h.At, Text: h.Text})
	}
	return r
}

// mostAsked is the maximum number of files that a draft lists.
const mostAsked = 20

// withAsked makes a delivery a draft if it changes files that only a draft may change.
func withAsked(r deliver.Request, asked *[]scope.Asked) deliver.Request {
	if asked == nil || len(*asked) == 0 {
		return r
	}
	r.Draft = true
	for i, a := range *asked {
		if i == mostAsked {
			r.AskedMore = len(*asked) - mostAsked
			break
		}
		r.Asked = append(r.Asked, pages.AskedLine{Path: a.Path, Why: a.Why})
	}
	return r
}

// whatWorkersSaid returns the latest summary from an agent for this claim, and the checks that passed in the last
// attempt. It skips unreadable reports.
func (d *Delivery) whatWorkersSaid(ctx context.Context, e fsm.Effect) (summary string, checks []pages.CheckLine) {
	for n := e.Attempt; n >= 1 && summary == ""; n-- {
		reports, err := d.Reports(ctx, fsm.AttemptID(e.Nonce, n))
		if err != nil {
			d.Log.Warn("could not read reports for the pull request", zap.String("worker", fsm.AttemptID(e.Nonce, n)),
				zap.Error(err))
			continue
		}
		for _, r := range reports {
			b, ok := r.Body.(*wire.WorkerResult)
			if !ok {
				continue
			}
			summary = b.Summary
			if n == e.Attempt {
				checks = passedChecks(b.Stages)
			}
		}
	}
	return summary, checks
}

// passedChecks returns the checks that passed in an attempt's last fix round.
func passedChecks(stages []wire.StageResult) (checks []pages.CheckLine) {
	for _, g := range stages {
		switch {
		case g.Stage == wire.StageCode:
			checks = nil
		case g.Stage == wire.StageValidate && g.ExitCode == 0:
			checks = append(checks, pages.CheckLine{
				Stage: g.Stage, Command: g.Command,
				Took: time.Duration(g.DurationMS) * time.Millisecond,
			})
		}
	}
	return checks
}

// notValidated returns the failure of a delivery that needs another validation, but has no budget for it.
func notValidated(err error) *fsm.EffectError {
	f := failure.Of(err)
	f.Reason, f.Transient, f.Resource = recovery.Validation, false, ""
	f.Text = "the work differs from the validated version, and no budget is left for another validation: " + f.Text
	return f
}
