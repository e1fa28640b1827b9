package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// writeJSON writes one line for each scenario.
func writeJSON(out io.Writer, results []result) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for _, r := range results {
		r.Seconds = float64(int(r.Seconds*10+0.5)) / 10
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// legend explains the less obvious columns.
const legend = `
SECONDS: from the poll that found the issue until its final state. The agents' scripts take most of this time.
AS PROMISED: attempts, verdicts, state, labels, comments and files are exactly those that the scenario lists.
`

// writeTable writes the table for people, with a line for each verdict. Differences from the promises follow below.
func writeTable(out io.Writer, results []result) {
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "ISSUE\tWHAT HAPPENED\tATTEMPTS\tVERDICTS\tFINAL\tSECONDS\tAS PROMISED")
	for _, r := range results {
		mark := "yes"
		if !r.OK {
			mark = "NO"
		}
		verdicts := r.Verdicts
		if len(verdicts) == 0 {
			verdicts = []string{"-"}
		}
		fmt.Fprintf(t, "#%d\t%s\t%d\t%s\t%s\t%.1f\t%s\n", r.Scenario, r.Title, r.Attempts, verdicts[0], r.Final,
			r.Seconds, mark)
		for _, v := range verdicts[1:] {
			fmt.Fprintf(t, "\t\t\t%s\t\t\t\n", v)
		}
	}
	_ = t.Flush() // into memory
	for l := range strings.Lines(table.String()) {
		fmt.Fprintln(out, strings.TrimRight(l, " \n"))
	}
	fmt.Fprint(out, legend)
	for _, r := range results {
		for _, w := range r.wrong {
			fmt.Fprintf(out, "%s: %s\n", r.Issue, w)
		}
	}
}

// writeChecks writes the checks of the whole run, or only the failed checks if all is false.
func writeChecks(out io.Writer, checks []check, all bool) {
	for _, c := range checks {
		switch {
		case len(c.wrong) > 0:
			fmt.Fprintf(out, "[NO] %s: %s\n", c.what, strings.Join(c.wrong, "; "))
		case all:
			fmt.Fprintf(out, "[ok] %s\n", c.what)
		}
	}
}
