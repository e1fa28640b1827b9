package effects

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/director/failure"
	"retake/internal/director/inforce"
	"retake/internal/director/reports"
	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/github/ask"
	"retake/internal/github/pages"
	"retake/internal/recovery"
)

// Questions posts questions to people, and keeps the comments of claims up to date.
type Questions struct {
	Setup      func() *inforce.Setup
	Contracts  *Contracts
	ConfigFile string // the advice shows its base name; may be ""
	GitHub     *github.Client
	Delivery   *Delivery
	// Failure returns the report of a failure, and whether a person wrote the report.
	Failure func(ctx context.Context, worker string, of *fsm.ReportRef) (report *wire.WorkerError, persons bool,
		err error)
	Denied func(worker string) []string              // returns a worker's requests that the proxy denied
	Gone   func(ctx context.Context, k fsm.IssueKey) // called when an issue no longer exists
}

// Escalate posts the effect's question on the issue.
func (q *Questions) Escalate(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	report, persons, err := q.Failure(ctx, e.Worker, e.Escalation.Report)
	if err != nil {
		return failure.Ended(err)
	}
	if persons { // the person cannot have observed the circumstances
		report = new(*report)
		report.Circumstances = nil
	}
	question := q.Escalation(q.Contracts.shown(ctx, e), e, report)
	if persons {
		AsPersonsWord(&question)
	}
	work, kept := q.Delivery.pushUnfinished(ctx, e)
	if work != nil {
		question.Branch, question.BranchURL = cmp.Or(work.Unfinished, work.Branch), work.URL
	}
	if e.Escalation.Stage != "COMMIT" { // at COMMIT, the question already explains that the work is unsafe to push
		question.Unsafe = kept
	}
	comment, err := q.GitHub.People.Ask(ctx, question)
	if _, gone := failure.IssueGone(err); gone {
		q.Gone(ctx, e.Task) // without the issue, the claim ends
	}
	asked := &fsm.Asked{
		Title: question.Title, Ask: question.Ask, Reply: question.Reply, Question: shownQuestion(question),
		Comment: comment, AgentAsked: !persons && shownQuestion(question) != "",
	}
	if question.Alone != question.Ask {
		asked.Alone = question.Alone
	}
	switch {
	case work == nil:
	case e.Work == nil || e.Work.PullRequest == 0:
		return failure.Or(fsm.EffectEnded{Delivery: work, Asked: asked}, err)
	case work.Unfinished != "": // the work stays on the pull request's branch
		more := *e.Work
		more.Unfinished, more.UnfinishedSHA = work.Unfinished, work.UnfinishedSHA
		return failure.Or(fsm.EffectEnded{Delivery: &more, Asked: asked}, err)
	}
	return failure.Or(fsm.EffectEnded{Asked: asked}, err)
}

// mostOfQuestion is the maximum length of a question in the journal, in characters. The comment has the full text.
const mostOfQuestion = 2000

// shownQuestion returns the agent's question, shortened to mostOfQuestion, for all views except the comment. It returns
// "" if the comment does not show a question from the agent.
func shownQuestion(q ask.Escalation) string {
	if q.Reason != string(recovery.NeedsHuman) {
		return ""
	}
	text := strings.TrimSpace(q.Question)
	if r := []rune(text); len(r) > mostOfQuestion {
		text = string(r[:mostOfQuestion-1]) + "…"
	}
	return text
}

// AsPersonsWord marks a question as based on a person's report. It removes the command and the exit code, which only
// a worker can observe.
func AsPersonsWord(q *ask.Escalation) {
	q.Command, q.ExitCode, q.TakesReply = nil, nil, false
	q.Facts = append(q.Facts, reports.PersonsWord)
}

// Progress edits the comment of a claim.
func (q *Questions) Progress(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	view := ProgressView(e.Progress)
	// Keep retrying during a rate limit, because otherwise the comment would stay wrong. A newer state or the final
	// comment cancels the retries.
	return failure.RetryTransient(ctx, pollPause(q.Setup), func() error {
		return q.GitHub.Claims.Progress(ctx, string(e.Task), e.Nonce, view)
	})
}

// ProgressView returns the content of a claim's comment.
func ProgressView(p *fsm.ProgressView) pages.ProgressView {
	view := pages.ProgressView{
		State: p.State.String(), Attempt: p.Attempt, Note: p.Why, Incident: string(p.Incident),
		Attempts: attemptLines(p.History),
	}
	view.Validates, view.Review = p.Validates, p.Review
	if p.State == fsm.Parked {
		view.PutOff = p.Until
	}
	if view.Commanded = p.Commanded; view.Note == p.Commanded { // the view already shows this text as Commanded
		view.Note = ""
	}
	return view
}

// failedLines returns the failed attempts for a page. It omits failures of work in review, because the attempts that
// produced this work had succeeded.
func failedLines(history []fsm.Failure, inReview bool) []pages.AttemptLine {
	return attemptLines(slices.DeleteFunc(slices.Clone(history), func(f fsm.Failure) bool {
		return f.Stage == "REVIEW" || inReview && f.Stage == "SYNC_MAIN"
	}))
}

func attemptLines(history []fsm.Failure) []pages.AttemptLine {
	var lines []pages.AttemptLine
	for _, f := range history {
		lines = append(lines, pages.AttemptLine{
			Number: f.Attempt, Stage: f.Stage, Reason: string(f.Reason), Cause: f.Cause, Then: f.Action.About().Done,
			At: f.At,
		})
	}
	return lines
}

// pollPause returns a function that returns the minimum pause before retrying a request that GitHub refused.
func pollPause(setup func() *inforce.Setup) func() time.Duration {
	return func() time.Duration { return setup().GitHub.Poll }
}
