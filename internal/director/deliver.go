package director

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/director/effects"
	"retake/internal/director/failure"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/recovery"
	"retake/internal/secrets/scope"
	"retake/internal/workspace"
)

const (
	deliverNone        = "none"
	deliverPullRequest = "pull_request"
)

// deliver commits, pushes and shows the work, if it goes with the base branch as that is now.
func (s *session) deliver(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	gh := s.setup().GitHub
	if gh.Delivery == deliverNone {
		git, done := s.withdrawals.During(ctx, e.Task)
		defer done()
		nothing, err := s.workspace.Unchanged(git, e.Nonce)
		if err != nil && effects.IsWithdrawn(git) {
			return s.closedMeanwhile(ctx, e, github.DeliverRequest{Key: string(e.Task), Nonce: e.Nonce})
		}
		if nothing || err != nil {
			return failure.Or(fsm.EffectEnded{Delivery: &fsm.DeliverResult{Nothing: true}}, err)
		}
		shown, err := s.github.Deliver(ctx, github.DeliverRequest{Key: string(e.Task), Nonce: e.Nonce})
		if shown.Withdrawn != "" {
			return takenBack(shown.Withdrawn)
		}
		return failure.Or(fsm.EffectEnded{Delivery: &fsm.DeliverResult{}}, err)
	}
	issue, err := s.github.Issue(ctx, string(e.Task))
	if why, gone := failure.IssueGone(err); gone {
		return takenBack(why)
	}
	why := ""
	if err == nil && issue.State == "open" {
		why, err = s.github.Withdrawn(ctx, issue)
	}
	switch {
	case err != nil:
		return failure.Ended(err)
	case why != "":
		s.unpushTried(ctx, e)
		return takenBack(why)
	}
	order := e.Deliver
	if order == nil { // planned by an earlier version
		order = &fsm.DeliverOrder{}
	}
	git, done := s.withdrawals.During(ctx, e.Task)
	defer done()
	var out fsm.EffectEnded
	if issue.State == "open" {
		out = s.handIn(ctx, git, e, order, issue)
	}
	shown := out.Failure == nil && out.Delivery != nil && out.Delivery.Branch != ""
	if issue.State != "open" || effects.IsWithdrawn(git) && !shown {
		return s.closedMeanwhile(ctx, e, s.deliverRequest(ctx, e, order, issue, workspace.Delivery{Branch: branchOf(e)},
			""))
	}
	return out
}

// handIn does so for an issue that is open. Git ends with its context. An issue that is in review was taken
// there by an earlier try, whose outcome was lost: this is the same delivery, however the base branch has moved
// on. The claimed label has gone, and another attempt would take that for a person's wish.
func (s *session) handIn(ctx, git context.Context, e fsm.Effect, order *fsm.DeliverOrder,
	issue github.Issue,
) fsm.EffectEnded {
	gh := s.setup().GitHub
	shown := issue.Has(gh.Labels.Review) && !issue.Has(gh.Labels.Claimed)
	mayValidate := order.Validate && len(s.setup().ValidateStages()) > 0 && !shown
	behind := ""
	if !shown || !order.Validate { // what is shown as a draft stays one
		var err error
		if behind, err = s.behind(git, e); err != nil {
			return failure.Ended(err)
		}
	}
	if behind != "" && mayValidate {
		return fsm.EffectEnded{Delivery: &fsm.DeliverResult{Merged: true}}
	}
	message := fmt.Sprintf("%s\n\nRefs #%d", s.github.CommitSubject(issue), issue.Number)
	request := s.pushRequest(e, issue, branchOf(e), message)
	if order.Validated {
		request.Validated = e.Worker
	}
	work, err := s.workspace.Deliver(git, request)
	moved := errors.Is(err, workspace.ErrBranchMoved)
	switch {
	case moved && mayValidate:
		return fsm.EffectEnded{Delivery: &fsm.DeliverResult{Merged: true}}
	case errors.Is(err, workspace.ErrNotValidated) && mayValidate:
		s.log.Warn("validated again", zap.String("issue", string(e.Task)), zap.Error(err))
		return fsm.EffectEnded{Delivery: &fsm.DeliverResult{Changed: true}}
	case errors.Is(err, workspace.ErrNotValidated), moved && order.Validated:
		return fsm.EffectEnded{Failure: notValidated(err)}
	case moved:
		work, err = s.pushJoined(git, e, request)
	}
	switch {
	case errors.Is(err, workspace.ErrNothingToDeliver):
		return fsm.EffectEnded{Delivery: &fsm.DeliverResult{Nothing: true}}
	case err != nil:
		return failure.Ended(err)
	}
	to, err := s.github.Deliver(ctx, s.deliverRequest(ctx, e, order, issue, work, s.draftNote(behind, moved)))
	if to.Withdrawn != "" {
		s.unpush(ctx, e, work)
		return takenBack(to.Withdrawn)
	}
	result := fsm.DeliverResult{Branch: work.Branch, SHA: work.SHA, URL: to.URL}
	if gh.Review {
		result.PullRequest = to.PullRequest
	}
	if err == nil {
		s.removeUnfinished(ctx, e)
	}
	return failure.Or(fsm.EffectEnded{Delivery: &result}, err)
}

// takenBack is the outcome of a delivery that nobody wants any more.
func takenBack(why string) fsm.EffectEnded {
	return fsm.EffectEnded{Claim: &fsm.ClaimResult{Why: why}}
}

// unpush removes the branch of a delivery that was taken back while it was pushed. What people could see before stays.
func (s *session) unpush(ctx context.Context, e fsm.Effect, work workspace.Delivery) {
	if e.Work != nil {
		return
	}
	if err := s.github.DeleteBranch(ctx, e.Task.Repo(), work.Branch, work.SHA); err != nil {
		s.log.Warn("branch not removed", zap.String("issue", string(e.Task)), zap.String("branch", work.Branch),
			zap.Error(err))
	}
}

// unpushTried does so for what earlier tries have pushed, and nobody has been shown.
func (s *session) unpushTried(ctx context.Context, e fsm.Effect) {
	if e.Work != nil {
		return
	}
	pushed, err := s.workspace.Pushed(e.Nonce)
	for _, branch := range sortedKeys(pushed) {
		err = errors.Join(err, s.github.DeleteUnshown(ctx, e.Task.Repo(), branch, pushed[branch]))
	}
	if err != nil {
		s.log.Warn("branches not removed", zap.String("issue", string(e.Task)), zap.Error(err))
	}
}

// closedMeanwhile is the outcome of a delivery whose issue is closed. Nobody wants it any more, unless an
// earlier try has shown the work and a person has merged it, which may be why the issue is closed: then it is
// the outcome of that try.
func (s *session) closedMeanwhile(ctx context.Context, e fsm.Effect, r github.DeliverRequest) fsm.EffectEnded {
	there, head, err := s.github.Settled(ctx, r)
	switch {
	case err != nil:
		return failure.Ended(err)
	case there.URL == "":
		s.unpushTried(ctx, e)
		return takenBack("the issue was closed")
	}
	shown, err := s.github.Deliver(ctx, r)
	result := fsm.DeliverResult{Branch: r.Branch, SHA: head, URL: shown.URL}
	if r.Watch {
		result.PullRequest = shown.PullRequest
	}
	return failure.Or(fsm.EffectEnded{Delivery: &result}, err)
}

// behind says how the work's base is out of date, empty if the work can be handed in as it is. An error of the
// kind conflict means that the two do not go together. Nothing is merged here: the next attempt merges, and
// validates what comes of it.
func (s *session) behind(ctx context.Context, e fsm.Effect) (string, error) {
	r := s.checkoutOf(e.Task, e.Nonce)
	drift, err := s.workspace.Drift(ctx, r)
	if err != nil || drift.Commits == 0 {
		return "", err
	}
	if err := s.workspace.Mergeable(ctx, r); err != nil {
		if errors.Is(err, workspace.ErrCannotMerge) {
			s.log.Warn("whether the work merges with the base branch is not known", zap.String("issue", string(e.Task)),
				zap.Error(err))
			return "", nil
		}
		return "", err
	}
	if s.setup().SyncPolicy().Reason(drift.Commits, drift.Behind) == "" {
		return "", nil
	}
	return fmt.Sprintf("%d commits behind `%s`", drift.Commits, s.config.GitHub.BaseBranch), nil
}

// draftNote says why nobody should take the work for validated; empty: it is.
func (s *session) draftNote(behind string, moved bool) string {
	switch {
	case len(s.setup().ValidateStages()) == 0:
		return "Not validated: no VALIDATE stage is configured."
	case behind != "":
		return "Not validated on today's base branch: it is " + behind + ", and the budget for attempts is used up."
	case moved:
		return "Not validated as it stands: it was merged with what people have pushed to this branch, and the " +
			"budget for attempts is used up."
	}
	return ""
}

// branchOf is the branch of a task's work: the one that was pushed before, or a new one.
func branchOf(e fsm.Effect) string {
	if e.Work != nil && e.Work.Branch != "" {
		return e.Work.Branch
	}
	return branchName(e.Task, e.Attempt)
}

// pushRequest asks for the work to be committed onto a branch, if nothing in it is unsafe.
// workspace.ErrBranchMoved then means that people have pushed to the branch of earlier work since the attempt
// began.
func (s *session) pushRequest(e fsm.Effect, issue github.Issue, branch, message string) workspace.DeliverRequest {
	request := workspace.DeliverRequest{
		Nonce: e.Nonce, RemoteURL: s.remote(e.Task.Repo()), Branch: branch, BaseBranch: s.config.GitHub.BaseBranch,
		Message: message, AuthoredAt: e.At, Check: s.inspect(e.Worker, issue.Labels),
	}
	if e.Work != nil && e.Work.Branch == branch {
		request.Onto = e.Work.SHA
	}
	return request
}

// pushJoined merges what people have pushed to the branch into the work, and pushes both.
func (s *session) pushJoined(ctx context.Context, e fsm.Effect,
	request workspace.DeliverRequest,
) (workspace.Delivery, error) {
	if _, err := s.workspace.Join(ctx, s.checkoutOf(e.Task, e.Nonce), request.Branch); err != nil {
		return workspace.Delivery{}, err
	}
	return s.workspace.Deliver(ctx, request)
}

// deliverRequest is what the pull request says.
func (s *session) deliverRequest(ctx context.Context, e fsm.Effect, order *fsm.DeliverOrder, issue github.Issue,
	work workspace.Delivery, note string,
) github.DeliverRequest {
	gh := s.setup().GitHub
	summary, checks := s.whatWorkersSaid(ctx, e)
	if note != "" {
		checks = nil // they passed for something else
	}
	r := github.DeliverRequest{
		Key: string(e.Task), Nonce: e.Nonce, Branch: work.Branch, Base: gh.BaseBranch, Title: issue.Title,
		PullRequest: gh.Delivery == deliverPullRequest, Watch: gh.Review && gh.Delivery == deliverPullRequest,
		Draft: note != "", Note: note,
		Summary: summary, Checks: checks, Clean: order.Validated,
		Attempts: failedLines(e.Failures, e.Work != nil && e.Work.PullRequest > 0),
		Usage: github.UsageLine{
			Attempts: e.Attempt, Tokens: order.Spent.Tokens, PaidCalls: order.Spent.PaidCalls,
			CostUSD: order.Spent.CostUSD,
		},
	}
	if e.Work != nil {
		r.Number = e.Work.PullRequest
	}
	for _, h := range order.Hints {
		r.Answers = append(r.Answers, github.AnswerLine{By: h.From, At: h.At, Text: h.Text})
	}
	return r
}

// whatWorkersSaid is the last summary of an agent of this claim, and the checks that passed in the last
// attempt, each once. What is not known any more is left out.
func (s *session) whatWorkersSaid(ctx context.Context, e fsm.Effect) (summary string, checks []github.CheckLine) {
	for n := e.Attempt; n >= 1 && summary == ""; n-- {
		reports, err := s.reports.of(ctx, fsm.AttemptID(e.Nonce, n))
		if err != nil {
			s.log.Warn("what a worker said is not shown", zap.String("worker", fsm.AttemptID(e.Nonce, n)),
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

// passedChecks are the checks of an attempt's last round.
func passedChecks(stages []wire.StageResult) (checks []github.CheckLine) {
	for _, g := range stages {
		switch {
		case g.Stage == wire.StageCode:
			checks = nil
		case g.Stage == wire.StageValidate && g.ExitCode == 0:
			checks = append(checks, github.CheckLine{
				Stage: g.Stage, Command: g.Command,
				Took: time.Duration(g.DurationMS) * time.Millisecond,
			})
		}
	}
	return checks
}

// pushUnfinished pushes what there is of the work, so that people can see what they are asked about, or go on
// with it. Kept says why it stays on this machine, in words; without work there is neither. The branch of a
// pull request is left alone: what is there was finished. It is the work, unless there is more: then that is on
// a branch beside it.
func (s *session) pushUnfinished(ctx context.Context, e fsm.Effect) (work *fsm.DeliverResult, kept string) {
	if e.Attempt == 0 || s.setup().GitHub.Delivery == deliverNone || !s.config.GitHub.Writes {
		return nil, ""
	}
	branch := branchOf(e)
	issue, err := s.github.Issue(ctx, string(e.Task))
	if _, gone := failure.IssueGone(err); gone {
		return nil, "" // and nobody to be told
	}
	if e.Work != nil && e.Work.PullRequest > 0 {
		branch = branchName(e.Task, e.Attempt) + "-unfinished"
		shown := *e.Work
		shown.URL, shown.Unfinished, shown.UnfinishedSHA = github.BranchURL(issue.URL, shown.Branch), "", ""
		work = &shown
	}
	if err != nil { // what its labels allow to be pushed is not known
		return work, failure.Of(err).Text
	}
	request := s.pushRequest(e, issue, branch, fmt.Sprintf("Unfinished work on #%d, as attempt %d left it",
		e.Task.Number(), e.Attempt))
	request.Unfinished = true
	git, done := s.withdrawals.During(ctx, e.Task)
	defer done()
	if e.Work != nil && e.Work.Branch != branch {
		request.Shown = e.Work.SHA // in review: nothing may have been done since
	}
	d, err := s.workspace.Deliver(git, request)
	if errors.Is(err, workspace.ErrBranchMoved) {
		d, err = s.pushJoined(git, e, request)
	}
	var unsafe *scope.Violation
	switch {
	case errors.Is(err, workspace.ErrNothingToDeliver), errors.Is(err, workspace.ErrNoCheckout):
		return work, ""
	case errors.As(err, &unsafe):
		return work, unsafe.Text
	case err != nil:
		s.log.Warn("unfinished work not pushed", zap.String("issue", string(e.Task)), zap.Error(err))
		return work, failure.Of(err).Text
	case work != nil:
		if e.Work.Unfinished != d.Branch {
			s.removeUnfinished(ctx, e)
		}
		work.Unfinished, work.UnfinishedSHA = d.Branch, d.SHA
		work.URL = github.BranchURL(issue.URL, d.Branch)
		return work, ""
	}
	return &fsm.DeliverResult{Branch: d.Branch, SHA: d.SHA, URL: github.BranchURL(issue.URL, d.Branch)}, ""
}

// release ends a claim. A person who takes over gets the work so far.
func (s *session) release(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	note := e.Release
	request := github.ReleaseRequest{
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
		work, kept := s.pushUnfinished(ctx, e)
		if request.Kept, request.Attempt = strings.TrimPrefix(kept, recovery.NotPushed), e.Worker; work == nil {
			work = e.Work
		}
		if work != nil {
			request.Branch, request.PullRequest = cmp.Or(work.Unfinished, work.Branch), work.PullRequest
		}
	}
	err := s.github.Release(ctx, request)
	if _, gone := failure.IssueGone(err); gone {
		return fsm.EffectEnded{}
	}
	switch {
	case err != nil:
	case note.Merged:
		s.removeBranch(ctx, e)
	default: // the claim's own comment must not say for ever that somebody works on it
		view := github.ProgressView{State: fsm.Released.String(), Attempt: e.Attempt} // the release says why
		if err := s.github.Progress(ctx, string(e.Task), e.Nonce, view); err != nil {
			s.log.Debug("comment not edited", zap.String("issue", string(e.Task)), zap.Error(err))
		}
	}
	return failure.Or(fsm.EffectEnded{}, err)
}

// removeBranch takes a merged branch away, if nobody has pushed to it since.
func (s *session) removeBranch(ctx context.Context, e fsm.Effect) {
	if e.Work == nil {
		return
	}
	s.dropBranch(ctx, e, e.Work.Branch, e.Work.SHA)
	s.removeUnfinished(ctx, e)
}

// removeUnfinished takes the branch of unfinished work away: all of it, or something better, is elsewhere now.
func (s *session) removeUnfinished(ctx context.Context, e fsm.Effect) {
	if e.Work != nil {
		s.dropBranch(ctx, e, e.Work.Unfinished, e.Work.UnfinishedSHA)
	}
}

func (s *session) dropBranch(ctx context.Context, e fsm.Effect, branch, sha string) {
	if !s.setup().GitHub.DeleteBranch || branch == "" {
		return
	}
	if err := s.github.DeleteBranch(ctx, e.Task.Repo(), branch, sha); err != nil {
		s.log.Warn("branch not removed", zap.String("issue", string(e.Task)), zap.String("branch", branch),
			zap.Error(err))
	}
}
