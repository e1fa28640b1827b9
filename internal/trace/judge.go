package trace

import (
	"cmp"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// judged emits a span for the verdict, and marks the attempt or state as failed.
func (b *Book) judged(at time.Time, t *task, f fsm.VerdictMade) {
	parent, failed := &t.root, t.phase
	if t.attempt != nil {
		parent, failed = t.attempt, t.attempt
	}
	// With Revalidate, the work is valid, and only the merge is tested again.
	if failed != nil && f.Verdict.Action != recovery.Revalidate {
		failed.Failed = oneLine(string(f.Finding.Reason), f.Finding.Cause)
	}
	t.reason = string(f.Finding.Reason)
	s := Span{
		Context: parent.Context.Child("verdict " + t.timed(at)), Parent: parent.Context.Span, Name: "verdict",
		Start: at, End: at,
	}
	s.add(KeyIssue, string(t.key))
	s.add(keyAttempt, int64(f.Attempt))
	s.add(keyStage, f.Stage)
	s.add(keyReason, t.reason)
	s.add(keyCause, f.Finding.Cause)
	s.add(keyRule, f.Finding.Rule)
	s.add(keyConfidence, f.Finding.Confidence)
	s.add(keyRow, f.Verdict.Row)
	s.add(keyAction, string(f.Verdict.Action))
	s.add(keyVeto, f.Verdict.Veto)
	s.add(keyDelay, f.Verdict.Delay.Seconds())
	s.add(keyCharges, string(f.Verdict.Charges))
	s.add(keyIncident, f.Incident)
	s.add(keyWhy, f.Verdict.Why)
	b.done(at, s)
}

// oneLine returns the first line of "head: text", for use as the error of a failed span.
func oneLine(head, text string) string {
	if head != "" && text != "" {
		text = head + ": " + text
	}
	line, _, _ := strings.Cut(cmp.Or(text, head), "\n")
	return line
}
