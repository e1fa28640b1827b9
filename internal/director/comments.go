package director

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"retake/internal/fsm"
	"retake/internal/github"
	"retake/internal/recovery"
)

// escalate asks a human, and shows the end of the output that the question is about.
func (s *session) escalate(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	q := e.Escalation
	report, err := s.reports.failure(ctx, e.Worker, q.Report)
	if err != nil {
		return failed(err)
	}
	about, _ := recovery.Describe(q.Reason)
	text := github.Escalation{
		Key: string(e.Task), Nonce: e.Nonce, AttemptID: e.Worker, Block: e.About(), Stage: q.Stage,
		Reason: string(q.Reason), Title: about.Title, Cause: q.Cause,
		Attempts: attemptLines(q.Tried), WhyStopped: q.Why, Ask: q.Ask,
	}
	if q.Stale {
		text.Reclaim = q.Cause
	}
	if r := report; r != nil {
		text.Tail, text.Facts, text.Tried, text.Question = outputTail(r), observations(r), fixRounds(r), r.Question
	}
	if len(q.Alike) > 0 {
		text.Facts = slices.Insert(text.Facts, 0, alike(e.Task, q.Alike))
	}
	err = s.github.Escalate(ctx, text)
	if _, gone := isIssueGone(err); gone {
		s.owner.send(ctx, s.issueGone(e.Task), nil) // nobody is there to be asked: the claim ends
	}
	return orFailed(fsm.EffectEnded{}, err)
}

// alike says which issues failed in the same way, this one among them; those of its own repository by their number.
func alike(k fsm.IssueKey, issues []string) string {
	list := strings.ReplaceAll(", "+strings.Join(issues, ", "), " "+k.Repo()+"#", " #")
	return fmt.Sprintf("the same failure in %d issues:%s", len(issues), list[1:])
}

func (s *session) progress(ctx context.Context, e fsm.Effect) fsm.EffectEnded {
	p := e.Progress
	view := github.ProgressView{State: p.State.String(), Attempt: p.Attempt, Note: p.Why, Attempts: attemptLines(p.History)}
	// A limit must not leave a comment that is false; a newer state, or the last word, ends the waiting.
	return s.retryTransient(ctx, func() error { return s.github.Progress(ctx, string(e.Task), e.Nonce, view) })
}

func attemptLines(history []fsm.Failure) []github.AttemptLine {
	var lines []github.AttemptLine
	for _, f := range history {
		lines = append(lines, github.AttemptLine{
			Number: f.Attempt, Stage: f.Stage, Reason: string(f.Reason), Cause: f.Cause, Then: f.Action.About().Done,
		})
	}
	return lines
}
