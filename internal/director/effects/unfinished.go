package effects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"retake/internal/director/failure"
	"retake/internal/fsm"
	"retake/internal/github/claims"
	"retake/internal/github/pages"
	"retake/internal/recovery"
	"retake/internal/secrets/scope"
	"retake/internal/workspace"
)

// pushUnfinished pushes unfinished work for people who answer a question or take over. kept gives the reason if the
// work stays on this machine. If there is no work, both results are empty. If a pull request already shows finished
// work, pushUnfinished returns that work, and pushes newer changes to a second branch.
func (d *Delivery) pushUnfinished(ctx context.Context, e fsm.Effect) (work *fsm.DeliverResult, kept string) {
	if e.Attempt == 0 || d.Setup().GitHub.Delivery == DeliverNone || !d.Setup().GitHub.Writes {
		return nil, ""
	}
	branch := BranchOf(e)
	issue, err := d.GitHub.Issues.Issue(ctx, string(e.Task))
	if _, gone := failure.IssueGone(err); gone {
		return nil, "" // the issue is gone, so pushing its work would be pointless
	}
	if e.Work != nil && e.Work.PullRequest > 0 {
		branch = fsm.BranchName(e.Task, e.Attempt) + "-unfinished"
		shown := *e.Work
		shown.URL, shown.Unfinished, shown.UnfinishedSHA = pages.BranchURL(issue.URL, shown.Branch), "", ""
		work = &shown
	}
	if err != nil { // without the issue's labels, the inspection cannot decide whether the work may be pushed
		return work, failure.Of(err).Text
	}
	request := d.pushRequest(e, issue, branch, fmt.Sprintf("Unfinished work on #%d, as attempt %d left it",
		e.Task.Number(), e.Attempt), nil)
	request.Unfinished = true
	git, done := d.Withdrawals.During(ctx, e.Task)
	defer done()
	if e.Work != nil && e.Work.Branch != branch {
		request.Shown = e.Work.SHA // the work is in review: push only newer changes
	}
	pushed, err := d.Workspace.Deliver(git, request)
	if errors.Is(err, workspace.ErrBranchMoved) {
		pushed, err = d.pushJoined(git, e, request)
	}
	var unsafe *scope.Violation
	switch {
	case errors.Is(err, workspace.ErrNothingToDeliver), errors.Is(err, workspace.ErrNoCheckout):
		return work, ""
	case errors.As(err, &unsafe):
		return work, unsafe.Text
	case err != nil:
		d.Log.Warn("could not push unfinished work", zap.String("issue", string(e.Task)), zap.Error(err))
		return work, failure.Of(err).Text
	case work != nil:
		if e.Work.Unfinished != pushed.Branch {
			d.removeUnfinished(ctx, e)
		}
		work.Unfinished, work.UnfinishedSHA = pushed.Branch, pushed.SHA
		work.URL = pages.BranchURL(issue.URL, pushed.Branch)
		return work, ""
	}
	return &fsm.DeliverResult{Branch: pushed.Branch, SHA: pushed.SHA, URL: pages.BranchURL(issue.URL, pushed.Branch)},
		""
}

// Release ends a claim. If a person takes the issue over, Release also pushes the unfinished work for that person.
func (d *Delivery) Release(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	note := e.Release
	request := claims.ReleaseRequest{
		Key: string(e.Task), Nonce: e.Nonce, Won: e.Attempt > 0, Why: note.Why,
		RestoreTask: note.Restore, Reclaim: note.Reclaim, Taken: note.Taken,
	}
	if note.Merged && e.Work != nil {
		request.Ended, request.PullRequest, request.By = "merged", e.Work.PullRequest, note.By
	}
	if !note.Merged && e.Work != nil {
		request.PullRequest = e.Work.PullRequest
	}
	if note.Taken != "" {
		work, kept := d.pushUnfinished(ctx, e)
		if request.Kept, request.Attempt = strings.TrimPrefix(kept, recovery.NotPushed), e.Worker; work == nil {
			work = e.Work
		}
		if work != nil {
			request.Branch, request.PullRequest = cmp.Or(work.Unfinished, work.Branch), work.PullRequest
		}
	}
	err := d.GitHub.Claims.Release(ctx, request)
	if _, gone := failure.IssueGone(err); gone {
		return fsm.EffectEnded{}
	}
	switch {
	case err != nil:
	case note.Merged:
		d.removeBranch(ctx, e)
	default:
		// The claim's comment may still show a running attempt. The release comment gives the reason.
		view := pages.ProgressView{State: fsm.Released.String(), Attempt: e.Attempt}
		if err := d.GitHub.Claims.Progress(ctx, string(e.Task), e.Nonce, view); err != nil {
			d.Log.Debug("could not edit claim comment", zap.String("issue", string(e.Task)), zap.Error(err))
		}
	}
	return failure.Or(fsm.EffectEnded{}, err)
}

// removeBranch deletes a merged branch, unless people have pushed to it since.
func (d *Delivery) removeBranch(ctx context.Context, e fsm.Effect) {
	if e.Work == nil {
		return
	}
	d.dropBranch(ctx, e, e.Work.Branch, e.Work.SHA)
	d.removeUnfinished(ctx, e)
}

// removeUnfinished deletes the branch of unfinished work that newer work has replaced.
func (d *Delivery) removeUnfinished(ctx context.Context, e fsm.Effect) {
	if e.Work != nil {
		d.dropBranch(ctx, e, e.Work.Unfinished, e.Work.UnfinishedSHA)
	}
}

func (d *Delivery) dropBranch(ctx context.Context, e fsm.Effect, branch, sha string) {
	if !d.Setup().GitHub.DeleteBranch || branch == "" {
		return
	}
	if err := d.GitHub.Deliveries.DeleteBranch(ctx, e.Task.Repo(), branch, sha); err != nil {
		d.Log.Warn("could not delete branch", zap.String("issue", string(e.Task)), zap.String("branch", branch),
			zap.Error(err))
	}
}
