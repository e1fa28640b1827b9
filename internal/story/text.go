package story

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/recovery/plaintext"
)

// Kinds of events that are shown in a way of their own.
var (
	attemptBegan = fsm.KindOf(fsm.AttemptBegan{})
	moved        = fsm.KindOf(fsm.Moved{})
	askedMove    = fsm.OnEscalate.Info().Means
)

// incidentRow names verdicts that an incident has made, rather than the policy.
const incidentRow = "director.incident"

// indent stands before what belongs to the line above.
const indent = "          "

// Explain writes the story for a person: where it stands and what can be done first, then how it came to that. now is the time for which it was made.
func (s Story) Explain(to io.Writer, now time.Time) error {
	w := &lines{}
	w.add("%s  %s", s.Issue, Plain(s.Title))
	if s.URL != "" {
		w.add("%s", s.URL)
	}
	w.add("")
	s.standing(w, now)
	w.add("")
	s.course(w)
	_, err := io.WriteString(to, w.b.String())
	return err
}

// standing is where it stands, what it waits for, and what a person can do.
func (s Story) standing(w *lines, now time.Time) {
	w.field("NOW", "%s since %s (%s): %s", s.State, clock(s.Since), ago(now.Sub(s.Since)), s.Means)
	switch {
	case s.Waits == "":
	case s.Until.IsZero():
		w.field("WAITS", "for %s", Plain(s.Waits))
	default:
		w.field("WAITS", "for %s, until %s (%s)", Plain(s.Waits), clock(s.Until), in(s.Until.Sub(now)))
	}
	if q := s.Asked; q != nil {
		w.field("WHY", "%s", because(q.Reason, q.Why))
		w.field("CAUSE", "%s", quoted(q.Cause))
		w.field("ASKED", "%s", Plain(q.Ask))
		if q.Reply != "" {
			w.field("", "recommended comment: %s", Plain(q.Reply))
		}
	} else if d := s.lastDecision(); d != nil && s.goesOn() && d.At.After(s.answered) {
		w.field("LAST", "failure: %s", because(d.Reason, d.Why))
		w.field("CAUSE", "%s", quoted(d.Cause))
	}
	for i, r := range s.Can {
		w.field([]string{"YOU CAN", ""}[min(i, 1)], "%s  %s", r.Do, r.Means)
	}
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
	w.field("METERS", "%s", s.meters())
}

// goesOn reports whether what failed last explains where the task stands: not once its work is being shown.
func (s Story) goesOn() bool {
	return !s.Over && s.State != fsm.InReview.String() && s.State != fsm.Delivering.String()
}

// because is why something was decided, with the reason in front if the words do not have it.
func because(r recovery.Reason, why string) string {
	if strings.HasPrefix(why, string(r)) {
		return Plain(why)
	}
	return string(r) + ": " + Plain(why)
}

// meters shows what is used of what the policy bounds.
func (s Story) meters() string {
	m, l := s.Meters, s.Limits
	parts := []string{
		of(m.Redispatches, l.Redispatches) + " re-dispatches", of(m.Iterations, l.Iterations) + " iterations", of(m.Errors, l.Errors) + " errors in a row",
		of(m.PaidCalls, l.PaidCalls) + " paid calls", fmt.Sprintf("%d tokens", m.Tokens), cost(m.CostUSD, l.CostUSD),
	}
	return strings.Join(parts, " · ")
}

func of[T int | int64](n, limit T) string {
	if limit == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d of %d", n, limit)
}

func cost(usd, limit float64) string {
	if limit == 0 {
		return fmt.Sprintf("%.2f USD", usd)
	}
	return fmt.Sprintf("%.2f of %.2f USD", usd, limit)
}

func (s Story) lastDecision() *Decision {
	for i := range slices.Backward(s.Attempts) {
		if n := len(s.Attempts[i].Decided); n > 0 {
			return &s.Attempts[i].Decided[n-1]
		}
	}
	return nil
}

// course is the story itself, one line for each event; a verdict has what it rests on below it.
func (s Story) course(w *lines) {
	if s.Dropped > 0 {
		w.add("(%d earlier events are in the journal: director events --issue %s --since …)", s.Dropped, s.Issue)
	}
	day, attempt := "", 0
	for _, e := range s.Events {
		if d := e.At.UTC().Format(time.DateOnly); d != day {
			day = d
			w.add("%s (UTC)", day)
		}
		if e.Kind == attemptBegan && e.Attempt != attempt {
			attempt = e.Attempt
			w.add("")
		}
		if e.Decision == nil && e.Kind == moved && strings.HasPrefix(e.Text, askedMove) { // the question above says it
			continue
		}
		w.add("%s  %s", e.At.UTC().Format(time.TimeOnly), Plain(e.Text))
		if e.Decision != nil {
			e.Decision.exPlain(w)
		}
	}
}

// explain is what a verdict rests on: observed, read, decided, paid.
func (d *Decision) exPlain(w *lines) {
	w.add(indent+"observed  %s%s", d.Observed, stageText(d.Stage))
	w.add(indent+"          %s", quoted(d.Cause))
	w.add(indent+"read as   %s: %s (rule %s, %.0f %% certain%s)", d.Reason, d.Means, d.Rule, 100*d.Certain, assertedText(d))
	w.add(indent+"decided   %s by row %s: %s", d.Action, d.Row, Plain(d.Why))
	if d.Veto != "" {
		w.add(indent+"          the guard %s forbade what the row wanted", d.Veto)
	}
	if d.Row == incidentRow {
		w.add(indent+"          it counts for the incident %s", Plain(d.Incident))
	}
	if changes := d.paid(); changes != "" {
		w.add(indent+"meters    %s", changes)
	}
	did := d.Done
	if d.Delay > 0 {
		did += ", after a pause of " + d.Delay.Round(time.Second).String()
	}
	w.add(indent+"then      %s", did)
}

func stageText(stage string) string {
	if stage == "" {
		return ""
	}
	return ", in stage " + stage
}

func assertedText(d *Decision) string {
	if d.Asserted == "" || d.Asserted == string(d.Reason) {
		return ""
	}
	return "; the worker asserts " + Plain(d.Asserted)
}

// paid says which meters the verdict moved.
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
		parts = append(parts, "charged to "+d.Charges)
	case d.Action.Again():
		parts = append(parts, "charged to nothing")
	}
	return strings.Join(parts, ", ")
}

// Line is an event as one line.
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

// Plain leaves of a text what a terminal may show in one line.
func Plain(s string) string { return plaintext.OneLine(s) }

// ShortTitle is the title in at most so many characters.
func (s Story) ShortTitle(most int) string {
	r := []rune(Plain(s.Title))
	if len(r) <= most {
		return string(r)
	}
	return string(r[:most-1]) + "…"
}

func quoted(s string) string {
	if s = Plain(s); s == "" {
		return "(nothing was printed)"
	}
	return "│ " + s
}

func ago(d time.Duration) string {
	if d < time.Second {
		return "just now"
	}
	return Span(d) + " ago"
}

func in(d time.Duration) string { return "in " + Span(d) }

// Span is a duration in its two largest units.
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

// lines collects a text; fields begin with a word in a column of its own.
type lines struct{ b strings.Builder }

func (l *lines) add(format string, args ...any) {
	line := strings.TrimRight(fmt.Sprintf(format, args...), " ")
	l.b.WriteString(line + "\n")
}

func (l *lines) field(name, format string, args ...any) {
	l.add("%-9s"+format, append([]any{name}, args...)...)
}
