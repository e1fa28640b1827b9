package timeline

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
	"retake/internal/recovery/policy"
)

// Events that get special formatting.
var (
	attemptBegan = fsm.KindOf(fsm.AttemptBegan{})
	moved        = fsm.KindOf(fsm.Moved{})
	askedMove    = fsm.OnEscalate.Info().Means
)

// incidentRow is the row of verdicts made by an incident instead of the policy.
const incidentRow = "director.incident"

// indent precedes lines that continue the line above.
const indent = "          "

// Explain writes the timeline for a person: the state and the options, then the history. Durations are relative to now.
func (s Task) Explain(to io.Writer, now time.Time) error {
	w := &lines{}
	w.add("%s  %s", s.Issue, Plain(s.Title))
	if s.URL != "" {
		w.add("%s", s.URL)
	}
	w.add("")
	if s.Stopped {
		w.field("STOPPED", "%s", StoppedText+". The commands below need a running director.")
	}
	s.standing(w, now)
	w.add("")
	s.course(w)
	_, err := io.WriteString(to, w.b.String())
	return err
}

// StoppedText is the heading for tasks and timelines from a stopped director's journal.
const StoppedText = "The director is stopped; this is from its journal. Start it with: director run"

// standing writes the state, the pending event and a person's options.
func (s Task) standing(w *lines, now time.Time) {
	w.field("NOW", "%s for %s (since %s): %s", s.State, Span(max(now.Sub(s.Since), 0)), clock(s.Since), s.Means)
	if s.Why != "" {
		w.field("WHY", "%s", Plain(s.Why))
		if s.Cause != "" {
			w.field("", "%s", quoted(s.Cause))
		}
	}
	if s.Asked != nil {
		for _, line := range s.Asked.Lines() {
			if !strings.Contains(s.Cause, strings.TrimSpace(line)) {
				w.field("", "%s", quoted(line))
			}
		}
	}
	first, second, _ := strings.Cut(whole(s.Next), " Step 2: ") // in journals of earlier versions
	w.field("DO NEXT", "%s", first)
	if second != "" {
		w.field("", "Step 2: %s", second)
	}
	advised := s.advised(w)
	switch {
	case s.Waits == "" || s.Over || s.Asked != nil, s.State == fsm.InReview.String() && s.Until.IsZero():
		// already written
	case s.Until.IsZero():
		w.field("WAITS", "for %s", Plain(s.Waits))
	default:
		w.field("WAITS", "for %s, until %s (%s)", Plain(s.Waits), clock(s.Until), in(s.Until.Sub(now)))
	}
	if s.Heard != "" {
		w.field("HEARD", "%s", Plain(s.Heard))
	}
	s.others(w, advised)
	if s.Work.Branch != "" {
		text := "branch " + s.Work.Branch
		if s.Work.PullRequest > 0 {
			text += fmt.Sprintf(", pull request #%d", s.Work.PullRequest)
		}
		if s.Work.URL != "" {
			text += ", " + s.Work.URL
		}
		w.field("WORK", "%s", Plain(text))
	}
	if s.Work.Branch == "" && strings.HasPrefix(s.Cause, recovery.NotPushed) {
		w.field("WORK", "not pushed: it is in the issue's checkout on the director's machine, under director.data_dir")
	}
	w.field("METERS", "counted against the budget: %s", s.meters())
	if s.Spent != (recovery.Usage{}) {
		w.field("SPENT", "%s, across all attempts", usage(s.Spent))
	}
}

// advised writes the recommended remedies, and returns their number.
func (s Task) advised(w *lines) (n int) {
	for ; n < len(s.Can) && s.Can[n].Advised; n++ {
		w.field("", "  %s", Plain(s.Can[n].Do))
		w.field("", "      %s", Plain(s.Can[n].Means))
	}
	return n
}

// others writes the remedies in two columns, starting at index from.
func (s Task) others(w *lines, from int) {
	width := 0
	for _, r := range s.Can[from:] {
		width = max(width, len([]rune(r.Do)))
	}
	for i, r := range s.Can[from:] {
		w.field([]string{"YOU CAN", ""}[min(i, 1)], "%-*s  %s", width, r.Do, r.Means)
	}
}

// unchanged replaces policy.NotRepeated.
const unchanged = "; an unchanged retry would fail in the same way"

// plainly rewords the reasons in journaled verdicts, including verdicts by earlier versions.
var plainly = strings.NewReplacer(
	policy.NotRepeated, unchanged, "; the same again fails the same way", unchanged,
	"the one retry is used up", "the only retry for this reason has been used",
)

// because returns the explanation of a decision, with the reason at the start.
func because(r recovery.Reason, why string) string {
	why = plainly.Replace(why)
	if r == recovery.NeedsHuman { // an answer can make a retry succeed
		why = strings.TrimSuffix(why, unchanged)
	}
	if strings.HasPrefix(why, string(r)) {
		return Plain(why)
	}
	return string(r) + ": " + Plain(why)
}

// meters shows how much of each policy limit the task has used.
func (s Task) meters() string {
	m, l := s.Meters, s.Limits
	parts := []string{
		of(m.Redispatches, l.Redispatches) + " re-dispatches", of(m.Iterations, l.Iterations) + " iterations",
		of(m.Errors, l.Errors) + " errors in a row",
		of(m.PaidCalls, l.PaidCalls) + " paid calls",
	}
	if m.Tokens > 0 { // 0 means that tokens were not counted
		parts = append(parts, fmt.Sprintf("%d tokens", m.Tokens))
	}
	if m.CostUSD > 0 || l.CostUSD > 0 {
		parts = append(parts, cost(m.CostUSD, l.CostUSD))
	}
	if s.answered.After(s.Queued) {
		parts = append(parts, "counted from zero since "+clock(s.answered))
	}
	return strings.Join(parts, " · ")
}

func of[T int | int64](n, limit T) string {
	if limit <= 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d of %d", n, limit)
}

func cost(usd, limit float64) string {
	if limit <= 0 {
		return fmt.Sprintf("%.2f USD", usd)
	}
	return fmt.Sprintf("%.2f of %.2f USD", usd, limit)
}

func (s Task) lastDecision() *Decision {
	for i := range slices.Backward(s.Attempts) {
		if n := len(s.Attempts[i].Decided); n > 0 {
			return &s.Attempts[i].Decided[n-1]
		}
	}
	return nil
}

// course writes the history, one line per event. A verdict is followed by its explanation.
func (s Task) course(w *lines) {
	if s.Dropped > 0 {
		w.add("(%d earlier events are in the journal: director events --issue %s --since …)", s.Dropped, s.Issue)
	}
	if s.Earlier > 0 {
		w.add("(%s only in the journal)", plural(s.Earlier, "earlier attempt"))
	}
	day, attempt := "", 0
	told := causes{}
	for _, e := range s.Events {
		if d := e.At.UTC().Format(time.DateOnly); d != day {
			day = d
			w.add("%s (UTC)", day)
		}
		if e.Kind == attemptBegan && e.Attempt != attempt {
			attempt = e.Attempt
			w.add("")
			told = causes{}
		}
		if e.Decision == nil && e.Kind == moved && strings.HasPrefix(e.Text, askedMove) { // shown in the question above
			continue
		}
		text := told.once(Plain(e.Text), s.Attempts)
		if d := e.Decision; d != nil {
			text = fmt.Sprintf("%s: %s%s", d.Reason, cmp.Or(d.Action.About().Means, string(d.Action)),
				pauseText(d.Delay))
		}
		w.add("%s  %s", e.At.UTC().Format(time.TimeOnly), text)
		if e.Decision != nil {
			e.Decision.explain(w, told)
		}
	}
}

// causes is the set of errors already printed, so that the text shows each error only once.
type causes map[string]bool

// once removes an error from the end of a line if it has been printed before, and records the errors in the line.
func (told causes) once(line string, of []Attempt) string {
	var tells []string
	for _, a := range of {
		for _, d := range a.Decided {
			if cause := Plain(d.Cause); cause != "" && strings.Contains(line, cause) && !slices.Contains(tells, cause) {
				tells = append(tells, cause)
			}
		}
	}
	for _, cause := range tells {
		if told[cause] {
			said := cause
			if strings.HasSuffix(line, " in stage "+cause) { // the cause begins with its stage
				_, said, _ = strings.Cut(cause, ": ")
			}
			line = strings.TrimSuffix(line, ": "+said)
		}
		told[cause] = true
	}
	return line
}

// explain writes the explanation of a verdict: observation, interpretation, decision and cost.
func (d *Decision) explain(w *lines, told causes) {
	w.add(indent+"observed  %s%s", d.Observed, stageText(d.Stage))
	if cause := Plain(d.Cause); !told[cause] {
		w.add(indent+"          %s", quoted(cause))
		told[cause] = true
	}
	w.add(indent+"read as   %s: %s (rule %s, confidence %.0f %%%s)", d.Reason, d.Means, d.Rule, 100*d.Certain,
		assertedText(d))
	if d.Says != "" {
		w.add(indent+"reported  %s", d.Says)
	}
	if d.Note != "" {
		w.add(indent+"warning   %s", d.Note)
	}
	why := strings.TrimPrefix(plainly.Replace(d.Why), string(d.Reason)+": ") // the line above names the reason
	w.add(indent+"decided   %s by row %s: %s", d.Action, d.Row, Plain(why))
	if d.Veto != "" {
		w.add(indent+" the guard %s overruled the row", d.Veto)
	}
	if d.Row == incidentRow {
		w.add(indent+"          it counts toward incident %s", Plain(d.Incident))
	}
	if changes := d.paid(); changes != "" {
		w.add(indent+"meters    %s", changes)
	}
	w.add(indent+"then      %s", d.Done+pauseText(d.Delay))
}

func stageText(stage string) string {
	if stage == "" {
		return ""
	}
	return ", in stage " + stage
}

// saysText describes a report's explicit flags, or returns "".
func saysText(w *recovery.Assertion, disagrees bool) string {
	if w == nil {
		return ""
	}
	text := fmt.Sprintf("is_transient = %t, should_retry = %t, escalate_to_human = %t", w.Transient, w.Retry,
		w.Escalate)
	if disagrees {
		return text + ": the evidence says otherwise"
	}
	return text + ": the evidence agrees"
}

func assertedText(d *Decision) string {
	if d.Asserted == "" || d.Asserted == string(d.Reason) {
		return ""
	}
	return "; the worker asserts " + Plain(d.Asserted)
}

// paid lists the meters that the verdict changed.
func (d *Decision) paid() string {
	var parts []string
	for _, m := range []struct {
		name          string
		before, after int
	}{
		{"re-dispatches", d.Before.Redispatches, d.After.Redispatches},
		{"iterations", d.Before.Iterations, d.After.Iterations},
		{"errors in a row", d.Before.Errors, d.After.Errors},
	} {
		if m.before != m.after {
			parts = append(parts, fmt.Sprintf("%s %d → %d", m.name, m.before, m.after))
		}
	}
	switch {
	case d.Charges != "":
		parts = append(parts, "counted against "+d.Charges)
	case d.Action.Again():
		parts = append(parts, "not counted")
	}
	return strings.Join(parts, ", ")
}

// Line formats an event as one line.
func (e Event) Line() string {
	about := string(e.Issue)
	if about == "" {
		about = "fleet"
	}
	if e.Attempt > 0 {
		about += fmt.Sprintf(" a%d", e.Attempt)
	}
	text := e.Text
	if d := e.Decision; d != nil {
		text += fmt.Sprintf(" [rule %s, row %s]", d.Rule, d.Row)
	}
	return clock(e.At) + "  " + about + "  " + Plain(text)
}

// Plain makes a text safe to show on one line of a terminal or page. The result cannot hide or reverse the text around
// it.
func Plain(s string) string { return plaintext.OneLine(plaintext.Shown(s)) }

// whole is like Plain, for Retake's own advice. It does not shorten the text, because shortened advice could be wrong.
func whole(s string) string { return plaintext.Shown(s) }

// ShortTitle returns the title, truncated to the given number of characters.
func (s Task) ShortTitle(most int) string {
	r := []rune(Plain(s.Title))
	if len(r) <= most {
		return string(r)
	}
	return string(r[:most-1]) + "…"
}

func quoted(s string) string {
	if s = Plain(s); s == "" {
		return "(no output)"
	}
	return "│ " + s
}

func in(d time.Duration) string { return "in " + Span(d) }

// Span formats a duration in its two largest units.
func Span(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// lines builds a text. A field starts with its name in a separate column.
type lines struct{ b strings.Builder }

func (l *lines) add(format string, args ...any) {
	line := strings.TrimRight(fmt.Sprintf(format, args...), " ")
	l.b.WriteString(line + "\n")
}

func (l *lines) field(name, format string, args ...any) {
	l.add("%-9s"+format, append([]any{name}, args...)...)
}
