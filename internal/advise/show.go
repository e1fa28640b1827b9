package advise

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// ShowPolicy prints the policy as a table for a terminal of 100 columns. It omits unreachable rows, and prints the
// document's own rows first. If failures are not counted per row, the METER column shows the unit.
func ShowPolicy(p *policy.Policy, out io.Writer, warnings ...string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "policy   %s\nbackoff  %s\n", p.Name(), backoffText(p.Backoff()))
	for i, g := range guardTexts(p.Guards()) {
		fmt.Fprintf(&b, "%-9s%s\n", []string{"guards", ""}[min(i, 1)], g)
	}
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	writeRow(t, cells{"FAILURE", "LADDER", "WAITS", "METER", "THEN"})
	rows := p.Standings()
	var overruled []string
	for _, r := range rows {
		if len(r.By) > 0 && !r.Own {
			overruled = append(overruled, r.Name+": "+strings.Join(r.By, ", ")+" decides")
			continue
		}
		writeRow(t, rowCells(r))
	}
	if rows[0].Own {
		b.WriteString("rows     + marks rows from the policy file\n")
	}
	for i, o := range overruled {
		fmt.Fprintf(&b, "%-9s%s\n", []string{"unused", ""}[min(i, 1)], o)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	b.WriteString("\n")
	for line := range strings.Lines(table.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	if len(warnings) > 0 {
		b.WriteString("\n")
	}
	Warn(warnings, &b)
	_, err := io.WriteString(out, b.String())
	return err
}

// PolicyHead names the columns of PolicyTable's rows.
var PolicyHead = []string{"failure", "ladder", "waits", "meter", "then"}

// PolicyTable returns the content of ShowPolicy for a page: the rows in effect, with line breaks inside cells, and
// the guards.
func PolicyTable(p *policy.Policy) (rows, guards [][]string) {
	for _, r := range p.Standings() {
		if len(r.By) > 0 && !r.Own { // other rows decide
			continue
		}
		c := rowCells(r)
		rows = append(rows, c[:])
	}
	for _, g := range guardTexts(p.Guards()) {
		guards = append(guards, []string{g})
	}
	return rows, guards
}

// rowCells formats one row, with one item per line in each cell.
func rowCells(r policy.Standing) (c cells) {
	on := []string{r.On}
	if r.Own {
		on[0] = "+ " + r.On
	}
	if r.Caller != "" {
		on = append(on, "@"+r.Caller)
	}
	for _, reason := range r.Reasons {
		line := "- " + string(reason)
		if by := r.Taken[reason]; by != "" {
			line += ": " + by
		}
		on = append(on, line)
	}
	var ladder, waits, meter []string
	free, paid := false, false
	for _, g := range r.Ladder {
		about := g.Action.About()
		free, paid = free || about.Again && about.Free, paid || about.Again && !about.Free
		ladder = append(ladder, rungText(g))
	}
	if free {
		waits = append(waits, waitTexts(r.Wait)...)
	}
	if paid {
		waits = append(waits, rowBackoff(r.Row))
		meter = append(meter, chargeText(r.Row))
	}
	if (free || paid) && r.Count != policy.ByRow {
		meter = append(meter, "per "+string(r.Count))
	}
	then := []string{string(r.Then)}
	if r.Becomes != "" {
		then = []string{"becomes", string(r.Becomes)}
	}
	if r.Fatal {
		then = append(then, "fatal")
	}
	for i, lines := range [][]string{on, ladder, waits, meter, then} {
		c[i] = strings.Join(lines, "\n")
	}
	return c
}

func rungText(g policy.Rung) string {
	s := string(g.Action)
	switch {
	case g.Times < 0:
		s += " ×∞"
	case g.Action.Again():
		s += " ×" + strconv.Itoa(g.Times)
	}
	for _, c := range g.When {
		s += "\nif " + string(c)
	}
	return s
}

// waitTexts describes the waits of wait_reset and cooldown.
func waitTexts(w policy.Wait) []string {
	var lines []string
	first, most := w.Unstated()
	if w.Longest > 0 {
		lines = append(lines, "stated, up to "+short(w.Longest))
	}
	unstated := "else " + short(first)
	if most > first {
		unstated += ", doubling up to " + short(most)
	}
	lines = append(lines, unstated)
	if w.Backoff {
		lines = append(lines, "then the backoff")
	}
	return lines
}

func rowBackoff(r policy.Row) string {
	s := "backoff"
	if r.Backoff != nil {
		s = backoffText(recovery.Backoff(*r.Backoff))
	}
	if r.Wait.Longest > 0 {
		s += ", stated up to " + short(r.Wait.Longest)
	}
	return s
}

func chargeText(r policy.Row) string {
	if about, ok := recovery.Describe(recovery.Reason(r.On)); ok {
		return string(about.Cause)
	}
	return "reason's cause"
}

func backoffText(b recovery.Backoff) string {
	var s string
	switch {
	case b.Initial <= 0:
		s = "none"
	case b.Linear:
		s = short(b.Initial) + ", linear, up to " + short(b.Max)
	case b.Factor > 1:
		s = short(b.Initial) + " ×" + strconv.FormatFloat(b.Factor, 'g', 4, 64) + " up to " + short(b.Max)
	default:
		s = "always " + short(min(b.Initial, b.Max))
	}
	switch b.Jitter {
	case recovery.FullJitter, recovery.EqualJitter:
		s += ", " + string(b.Jitter) + " jitter"
	case recovery.AroundJitter:
		s += ", ±" + percent(b.Spread)
	case recovery.AdditiveJitter:
		s += ", plus up to "
		if b.Spread > 0 {
			s += percent(b.Spread)
		}
		if b.Spread > 0 && b.Add > 0 {
			s += " and "
		}
		if b.Add > 0 {
			s += short(b.Add)
		}
	}
	return s
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'g', 4, 64) + " %" }

func short(d time.Duration) string { return policy.Span(d) }
