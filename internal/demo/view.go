package demo

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"retake/internal/fsm"
)

// refresh draws the live view on a terminal.
func (r *run) refresh() {
	if r.screen != nil {
		r.screen.show(r.view(time.Now()))
	}
}

// view returns the lines of the live view, one for the director and one for each scenario.
func (r *run) view(now time.Time) []string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "\t#\tWHAT HAPPENS\tSTATE\tATTEMPT\tSECONDS")
	for _, a := range r.scenarios {
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
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\n", mark, a.Number, a.Title, r.stateOf(a), attempt, seconds)
	}
	_ = t.Flush() // into memory
	return append([]string{"", r.directorLine(now)}, strings.Split(strings.TrimRight(b.String(), "\n"), "\n")...)
}

// stateOf returns a scenario's state for the table.
func (r *run) stateOf(a *activeScenario) string {
	switch {
	case a.state == running && a.stage != "":
		return running + ": " + a.stage
	case a.state != "":
		return a.state
	case a.Limit && r.limit.at.IsZero():
		return "not offered yet"
	}
	return "offered"
}

// directorLine returns the line about the director.
func (r *run) directorLine(now time.Time) string {
	phase := r.state.Director.Phase
	if phase == "" {
		phase = "begins"
	}
	text := fmt.Sprintf("%6.0fs  director: %s", now.Sub(r.began).Seconds(), phase)
	if left := r.limit.until.Sub(now); phase == string(fsm.PhaseCooldown) && left > 0 {
		text += fmt.Sprintf(" for %.0f s", left.Seconds())
	}
	if r.killed > 0 {
		text += fmt.Sprintf(", killed %d of %d times", r.killed, r.killed+r.kills)
	}
	return text
}
