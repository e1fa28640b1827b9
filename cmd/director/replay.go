package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"retake/internal/config"
	"retake/internal/director/offline"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/recovery"
	"retake/internal/whatif"
)

// replaying holds the flags of `director replay`.
type replaying struct {
	policy, preset, rules, other string // the alternative rules
	since, journal               string
	json                         bool
}

func replayCommand(o *options) *cobra.Command {
	var r replaying
	c := &cobra.Command{
		Use: "replay [ISSUE]", Args: needs(cobra.MaximumNArgs(1), "want at most one issue"),
		Short: "Compare past decisions with another policy, other rules or other limits",
		Long: "Replay the journal, including archived batches, and decide all its failures again under another " +
			"policy, other rules or other limits. The output counts\nthe differences and lists them. Without " +
			"alternatives, the current configuration is used. The command makes no changes, and works while a " +
			"director is running.\nAfter a claim's first different verdict, its later verdicts are counted but not " +
			"compared, because its history would have been different.\nISSUE: " + issueWanted + ".\n" +
			exits("no differences", "there are differences, there is no journal, or it has no record of the issue",
				"the comparison failed"),
		Example: "  director replay --policy new.toml --since 30d\n  director replay --set director.max_retries=1 " +
			"acme/widgets#21\n" +
			"  director replay --journal journal.jsonl.zst --preset gdd --json",
	}
	f := c.Flags()
	f.StringVar(&r.policy, "policy", "", "a TOML file with rows that override the preset's rows, instead of the "+
		"configured file")
	f.StringVar(&r.preset, "preset", "", "a built-in policy to use instead of the configured preset and file: "+
		"director, reviewcat, gdd, cortex, prp, dispatch")
	f.StringVar(&r.rules, "rules", "", "a TOML file of rules that override the built-in rules; stored reports are "+
		"classified again")
	f.StringVar(&r.other, "config-to", "", "a complete alternative configuration; --config selects the journal")
	f.StringVar(&r.since, "since", "", "compare only verdicts since a time (2006-01-02T15:04:05Z), a day "+
		"(2006-01-02), or an age (12h, 30d); default: the whole journal")
	f.StringVar(&r.journal, "journal", "", "read this `FILE` from \"director journal export\"; without a "+
		"configuration file or --set, the built-in configuration applies")
	f.BoolVar(&r.json, "json", false, "print the result as one JSON object")
	c.RunE = func(cmd *cobra.Command, args []string) error { return r.run(cmd, o, args) }
	return c
}

func (r *replaying) run(cmd *cobra.Command, o *options, args []string) error {
	q, err := r.question(cmd, o)
	if err != nil {
		return err
	}
	var asked fsm.IssueKey
	if len(args) == 1 {
		key, err := issueKey(args[0], q.Config.GitHub.Repositories)
		if err != nil {
			return err
		}
		asked = key
		q.Only = func(k fsm.IssueKey) bool { return k.Same(key) }
	}
	some, known := false, false
	q.Seen = func(f fsm.Fact) {
		some = true
		known = known || fsm.About(f).Same(asked)
	}
	found, err := q.Ask(cmd.Context())
	switch {
	case err != nil:
		return err
	case !some:
		return noBecause{noJournal(q.Config)}
	case len(args) == 1 && !known:
		return noBecause{errors.New(operator.NoTask(asked))}
	}
	if r.json {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(found)
	} else {
		err = showReplay(cmd.OutOrStdout(), found, q.Reread)
	}
	return answer(found.Counts.Differ == 0, err)
}

// question returns the journal to replay and the alternative configuration.
func (r *replaying) question(cmd *cobra.Command, o *options) (q offline.WhatIf, err error) {
	q.Export, q.Reread = r.journal, r.rules != ""
	load := o.load
	if r.journal != "" { // for an exported journal, the built-in configuration is enough
		load = func() (config.Config, error) { return o.loadIf(cmd) }
	}
	if q.Config, err = load(); err != nil {
		return q, err
	}
	to := *o
	switch {
	case r.other != "":
		to = o.on(r.other)
	case r.journal != "":
		to = o.asked(cmd)
	}
	to.set = maps.Clone(o.set)
	if to.set == nil {
		to.set = map[string]string{}
	}
	if r.preset != "" || r.policy != "" {
		to.set["recovery.policy_file"] = r.policy
	}
	if r.preset != "" {
		to.set["recovery.preset"] = r.preset
	}
	if r.rules != "" {
		to.set["recovery.rules_file"] = r.rules
	}
	if q.Other, err = to.load(); err != nil {
		return q, err
	}
	if q.Since, err = timeOf(r.since, time.Now()); err != nil {
		return q, fmt.Errorf("--since: %w", err)
	}
	if len(to.set) == 0 && r.other == "" || r.journal != "" && !fileNamed(cmd) {
		return q, nil // nothing to compare: an alternative or a current configuration is missing
	}
	today := *o
	today.set = nil
	c, err := today.load()
	if err == nil { // a configuration that needs --set to be valid cannot be compared
		q.Today = &c
	}
	return q, nil
}

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
