package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"retake/internal/recovery"
	"retake/internal/whatif"
)

// showReplay prints which decisions would have been different.
func showReplay(to io.Writer, r *whatif.Report, reread bool) error {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	n := &r.Counts
	all := n.Same + n.Differ + n.Later + n.NotAsked + n.Unknown
	if all == 0 {
		_, err := fmt.Fprintln(to, "no verdicts, because there were no failures in this period")
		return err
	}
	fmt.Fprintf(w, "verdicts\t%d\ton %s, %s to %s\n", all, counted(len(r.Issues), "issue", "issues"),
		r.From.Format(time.DateTime), r.To.Format(time.DateTime))
	for _, row := range []struct {
		name  string
		n     int
		means string
		of    bool // part of the total, so it is printed even if n is 0
	}{
		{"same", n.Same, "", true},
		{"differ", n.Differ, "", true},
		{"  already", n.Already, "would also differ under the current configuration, without the alternatives", false},
		{"not compared", n.Later, "later verdicts on claims with an earlier difference", n.Later > 0},
		{"not compared", n.NotAsked, "decided without a policy", n.NotAsked > 0},
		{"not compared", n.Unknown, "the beginning of the claim is missing from the journal", n.Unknown > 0},
		{"incident", n.ByIncident, "decided by an incident, as before" + alone(n.PolicyAlone), false},
		{"not reclassified", n.Unread, "the report is no longer stored, so its recorded finding applies", false},
	} {
		if row.of || row.n > 0 && (row.name != "not reclassified" || reread) {
			fmt.Fprintf(w, "%s\t%d\t%s\n", row.name, row.n, row.means)
		}
	}
	if len(r.Cases) > 0 {
		showCases(w, r)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(to, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// alone returns a note that, without the incident, the policy would have decided n cases differently. It returns "" if
// n is 0.
func alone(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; without it, the policy would have decided %d differently", n)
}

func showCases(w *tabwriter.Writer, r *whatif.Report) {
	fmt.Fprint(w, "\nCOUNT\tREASON\tWAS\tWOULD BE\tIN\n")
	for _, c := range r.Changes {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", c.Count, c.Reason, c.Was, c.Would, c.Kind)
	}
	fmt.Fprint(w, "\nISSUE\tATTEMPT\tREASON\tWAS\tWOULD BE\tLATER\tROW\tWHY\n")
	for _, c := range r.Cases {
		reason := string(c.Was.Reason)
		if c.Would.Reason != c.Was.Reason {
			reason += " → " + string(c.Would.Reason)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%d\t%s\t%s\n", c.Issue, c.Attempt, reason, did(c.Was), did(c.Would),
			c.Later, c.Would.Row, c.Would.Why)
	}
	t := &r.Totals
	fmt.Fprintf(w, "\nattempts\t%s\n", strings.Join(attemptLines(t), "\n\t"))
	fmt.Fprintf(w, "questions\t%d more, %d fewer\n", t.MoreAsked, t.FewerAsked)
}

// attemptLines summarises how attempts and delays would have changed.
func attemptLines(t *whatif.Totals) []string {
	lines := []string{fmt.Sprintf("%d more attempts granted, %d fewer; only the first difference of each claim counts",
		t.MoreAttempts, t.FewerAttempts)}
	if t.SparedAttempts > 0 {
		lines = append(lines, fmt.Sprintf("%s made that the alternative would not have granted (%s), delivering %s",
			counted(t.SparedAttempts, "attempt was", "attempts were"), used(t.SparedUsage),
			counted(t.SparedDelivered, "claim", "claims")))
	}
	for _, row := range []struct {
		n     int
		means string
	}{
		{t.Longer, "would have waited longer"},
		{t.Shorter, "would have waited less"},
		{t.NowCharged, "would have been charged as retries, but were not"},
		{t.NowFree, "would not have been charged as retries, but were"},
	} {
		if row.n > 0 {
			lines = append(lines, fmt.Sprintf("%d %s", row.n, row.means))
		}
	}
	return lines
}

// used formats the usage that attempts reported.
func used(u recovery.Usage) string {
	text := counted(int(u.PaidCalls), "paid call", "paid calls")
	if u.Tokens > 0 {
		text += fmt.Sprintf(", %d tokens", u.Tokens)
	}
	if u.CostUSD > 0 {
		text += fmt.Sprintf(", %.2f USD", u.CostUSD)
	}
	return text
}

func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// did formats an action with its delay.
func did(d whatif.Decision) string {
	if d.DelaySeconds == 0 {
		return string(d.Action)
	}
	delay := time.Duration(d.DelaySeconds * float64(time.Second))
	if delay >= time.Second {
		return fmt.Sprintf("%s in %s", d.Action, delay.Round(100*time.Millisecond))
	}
	return fmt.Sprintf("%s in %s", d.Action, delay.Round(time.Millisecond))
}
