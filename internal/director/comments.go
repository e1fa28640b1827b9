package director

import (
	"cmp"
	"context"
	"slices"

	"retake/internal/director/failure"
	"retake/internal/fsm"
	"retake/internal/github"
)

// escalate asks a human.
func (s *session) escalate(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	report, persons, err := s.reports.failure(ctx, e.Worker, e.Escalation.Report)
	if err != nil {
		return failure.Ended(err)
	}
	question := s.escalation(e, report)
	if persons {
		asPersonsWord(&question)
	}
	work, kept := s.pushUnfinished(ctx, e)
	if work != nil {
		question.Branch, question.BranchURL = cmp.Or(work.Unfinished, work.Branch), work.URL
	}
	if e.Escalation.Stage != "COMMIT" { // there it is what the question is about
		question.Unsafe = kept
	}
	err = s.github.Escalate(ctx, question)
	if _, gone := failure.IssueGone(err); gone {
		s.owner.Send(ctx, s.issueGone(e.Task), nil) // nobody is there to be asked: the claim ends
	}
	asked := &fsm.Asked{Title: question.Title, Ask: question.Ask, Reply: question.Reply}
	switch {
	case work == nil:
	case e.Work == nil || e.Work.PullRequest == 0:
		return failure.Or(fsm.EffectEnded{Delivery: work, Asked: asked}, err)
	case work.Unfinished != "": // the branch of the pull request stays the one of the work
		more := *e.Work
		more.Unfinished, more.UnfinishedSHA = work.Unfinished, work.UnfinishedSHA
		return failure.Or(fsm.EffectEnded{Delivery: &more, Asked: asked}, err)
	}
	return failure.Or(fsm.EffectEnded{Asked: asked}, err)
}

// asPersonsWord marks a question about what a person reported, and takes off what only the worker can have
// seen: how a command ended.
func asPersonsWord(q *github.Escalation) {
	q.Command, q.ExitCode = nil, nil
	q.Facts = append(q.Facts, personsWord)
}

func (s *session) progress(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	view := progressView(e.Progress)
	// A limit must not leave a comment that is false; a newer state, or the last word, ends the waiting.
	return failure.RetryTransient(ctx, s.pollPause, func() error { return s.github.Progress(ctx, string(e.Task), e.Nonce, view) })
}

func progressView(p *fsm.ProgressView) github.ProgressView {
	view := github.ProgressView{
		State: p.State.String(), Attempt: p.Attempt, Note: p.Why, Incident: string(p.Incident),
		Attempts: attemptLines(p.History),
	}
	view.Validates = p.Validates
	if p.State == fsm.Parked {
		view.PutOff = p.Until
	}
	if view.Commanded = p.Commanded; view.Note == p.Commanded { // once is enough
		view.Note = ""
	}
	return view
}

// failedLines are the attempts that failed, without those whose work is shown and was found wanting later:
// these had done what was asked.
func failedLines(history []fsm.Failure, inReview bool) []github.AttemptLine {
	return attemptLines(slices.DeleteFunc(slices.Clone(history), func(f fsm.Failure) bool {
		return f.Stage == "REVIEW" || inReview && f.Stage == "SYNC_MAIN"
	}))
}

func attemptLines(history []fsm.Failure) []github.AttemptLine {
	var lines []github.AttemptLine
	for _, f := range history {
		lines = append(lines, github.AttemptLine{
			Number: f.Attempt, Stage: f.Stage, Reason: string(f.Reason), Cause: f.Cause, Then: f.Action.About().Done,
			At: f.At,
		})
	}
	return lines
}
