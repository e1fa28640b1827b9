package demo

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"retake/internal/fsm"
)

// refresh draws the live view, if somebody looks.
func (p *play) refresh() {
	if p.screen != nil {
		p.screen.show(p.view(time.Now()))
	}
}

// view is where everything stands: a line for the director, and one for each scenario.
func (p *play) view(now time.Time) []string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "\t#\tWHAT HAPPENS\tSTATE\tATTEMPT\tSECONDS")
	for _, a := range p.acts {
		mark, seconds, attempt := "", "", ""
		if a.done {
			mark = "*"
		}
		if a.attempt > 0 {
			attempt = fmt.Sprint(a.attempt)
		}
		if !a.began.IsZero() {
			until := now
			if !a.ended.IsZero() {
				until = a.ended
			}
			seconds = fmt.Sprintf("%.0f", until.Sub(a.began).Seconds())
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\n", mark, a.Number, a.Title, p.where(a), attempt, seconds)
	}
	_ = t.Flush() // into memory
	return append([]string{"", p.director(now)}, strings.Split(strings.TrimRight(b.String(), "\n"), "\n")...)
}

// where says in a word or two where a scenario is.
func (p *play) where(a *act) string {
	switch {
	case a.state == running && a.stage != "":
		return running + ": " + a.stage
	case a.state != "":
		return a.state
	case a.Limit && p.limit.at.IsZero():
		return "not offered yet"
	}
	return "offered"
}

// director says what the director does.
func (p *play) director(now time.Time) string {
	phase := p.state.Director.Phase
	if phase == "" {
		phase = "begins"
	}
	text := fmt.Sprintf("%6.0fs  director: %s", now.Sub(p.narrator.began).Seconds(), phase)
	if left := p.limit.until.Sub(now); phase == string(fsm.PhaseCooldown) && left > 0 {
		text += fmt.Sprintf(" for %.0f s", left.Seconds())
	}
	if p.killed > 0 {
		text += fmt.Sprintf(", killed %d of %d times", p.killed, p.killed+p.kills)
	}
	return text
}
