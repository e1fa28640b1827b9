package effects

import (
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/inforce"
	"retake/internal/director/internal/witness"
	"retake/internal/director/reports"
	"retake/internal/fsm"
	"retake/internal/github/ask"
	"retake/internal/github/pages"
	"retake/internal/recovery"
	"retake/internal/recovery/circumstances"
)

// Escalation returns the comment that asks the effect's question on the issue. report is the failure that led to the
// question, or nil. in is the setup of the attempt.
func (q *Questions) Escalation(in *inforce.Setup, e fsm.Effect, report *wire.WorkerError) ask.Escalation {
	asked, c := e.Escalation, wording{in}
	happened := c.happened(asked, report)
	words := c.words(e, report, happened, q.ConfigFile)
	text := ask.Escalation{
		Key: string(e.Task), Nonce: e.Nonce, AttemptID: e.Worker, Block: e.About(),
		Title: words.Title, Ask: words.Ask, Alone: words.Alone, Invite: words.Invite,
		Reply: words.Command,
		Stage: asked.Stage, Reason: string(asked.Reason), Cause: withoutPackage(asked.Cause),
		Command:  happened.Command(),
		Attempts: attemptLines(asked.Tried), Answers: answerLines(asked.Hints),
		WhyStopped: whyStopped(asked, report, words.Title),
	}
	if asked.Stale {
		text.Reclaim = text.Cause
	}
	if e.Work != nil {
		text.PullRequest = e.Work.PullRequest
	}
	if r := report; r != nil {
		text.Tail, text.Tried = reports.OutputTail(r), reports.FixRounds(r)
		text.Question, text.ExitCode = r.Question, r.ExitCode
		if r.Signal != "" {
			text.Facts = []string{"signal: " + r.Signal}
		}
	}
	text.TakesReply = in.Escalation.PlainAnswers && shownQuestion(text) != ""
	text.Alike = asked.Alike
	text.Facts = append(text.Facts, q.Denied(e.Worker)...)
	return text
}

// whyStopped returns one sentence that explains why Retake asks a person instead of trying again. For a failure that a
// retry could fix, or a question that the policy asks, it gives the policy's reason. For a failure that would recur, it
// repeats the title.
func whyStopped(q *fsm.Escalation, report *wire.WorkerError, title string) string {
	about, _ := recovery.Describe(q.Reason)
	switch {
	case strings.HasPrefix(q.Cause, recovery.Unapproved):
		return "Agents get only text that a person with triage rights has approved."
	case about.Retryable || q.Topic != "" || q.Stale || retried(q):
		return sentence(strings.TrimPrefix(q.Why, string(q.Reason)+": "))
	case q.Reason == recovery.NeedsHuman && report != nil && report.Question != "":
		return "The agent cannot decide this."
	}
	return "Retake did not repeat the attempt unchanged: " + title + "."
}

// sentence returns a clause as a sentence.
func sentence(clause string) string {
	first, size := utf8.DecodeRuneInString(clause)
	if clause == "" || strings.HasSuffix(clause, ".") {
		return clause
	}
	return string(unicode.ToUpper(first)) + clause[size:] + "."
}

// retried reports whether the policy granted another attempt after an earlier failure for the same reason.
func retried(q *fsm.Escalation) bool {
	return slices.ContainsFunc(q.Tried, func(f fsm.Failure) bool {
		return f.Reason == q.Reason && f.Action.Again()
	})
}

// withoutPackage removes the package name from the start of our errors.
func withoutPackage(cause string) string {
	for _, name := range []string{"workspace: ", "container: ", "github: ", "director: "} {
		cause = strings.TrimPrefix(cause, name)
	}
	return cause
}

func answerLines(said []fsm.Hint) (lines []pages.AnswerLine) {
	for _, h := range said {
		lines = append(lines, pages.AnswerLine{By: h.From, At: h.At, Text: h.Text})
	}
	return lines
}

// wording composes questions with the setup in force.
type wording struct{ *inforce.Setup }

// happened returns the circumstances of the failure that led to a question. The worker records them for its stages,
// and the director for its effects. The record is empty for a report without circumstances.
func (in wording) happened(q *fsm.Escalation, report *wire.WorkerError) circumstances.Record {
	if q.Stale || report == nil {
		return witness.Own(in.Config)
	}
	if report.Circumstances == nil {
		return circumstances.Record{}
	}
	// the director itself failed later, for example in COMMIT
	if stage := report.Circumstances.Stage(); stage != "" && stage != q.Stage {
		return witness.Own(in.Config)
	}
	return *report.Circumstances
}

// words returns the text of a question. Text from the operator's policy replaces the default.
func (in wording) words(e fsm.Effect, report *wire.WorkerError, happened circumstances.Record,
	file string,
) recovery.Words {
	q := e.Escalation
	c := recovery.Case{
		Reason: q.Reason, Stage: q.Stage, Stale: q.Stale, Topic: q.Topic, Cause: q.Cause,
		Happened: happened, Image: in.Containers.Image, Alike: len(q.Alike), AtOnce: config.HoldsAtOnce,
		Repeated: repeated(q.Tried),
	}
	if file != "" {
		c.File = filepath.Base(file) // the comment is public, so it must not show the path
	}
	if e.Work != nil {
		c.Pull = e.Work.PullRequest
	}
	c.Asked = report != nil && report.Question != ""
	words := c.Words()
	if q.Topic == recovery.TopicPolicy && q.Ask != "" {
		words.Ask, words.Alone, words.Invite = q.Ask, q.Ask, "Then comment:"
	}
	return words
}

// repeated reports whether the last attempt was an unchanged retry, and failed like the one before.
func repeated(tried []fsm.Failure) bool {
	if len(tried) < 2 {
		return false
	}
	last, before := tried[len(tried)-1], tried[len(tried)-2]
	return before.Action.About().Same && last.Stage == before.Stage && last.Reason == before.Reason &&
		last.Cause == before.Cause && !slices.Contains([]recovery.Reason{recovery.NeedsHuman}, last.Reason)
}
