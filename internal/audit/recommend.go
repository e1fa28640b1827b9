package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"retake/internal/recovery"
)

// Bounds of the advice.
const (
	mostNamed = 5 // tasks under one recommendation
	mostSteps = 20
	mostSeen  = 160 // characters of a cause
	// spike: from so many attempts of unknown reason on, if they are at least a fifth, the rules are what must be mended.
	spike      = 3
	spikeShare = 5
)

// recommendations says what a person can do: one line for each thing to do, what helps most first.
func recommendations(s *strings.Builder, d ReportData) {
	s.WriteString("\n## Recommendations\n\n")
	n := 0
	say := func(format string, args ...any) {
		n++
		fmt.Fprintf(s, "%d. "+format, append([]any{n}, args...)...)
	}
	groups := byAsk(d.Failed)
	for _, i := range d.Incidents {
		about, _ := recovery.Describe(recovery.Reason(i.Reason))
		same := "the same failure in all of them"
		if outage(about.Cause) {
			same = "one outage"
		}
		ask := about.Ask // once is enough
		if slices.ContainsFunc(groups, func(g *asked) bool { return g.ask == ask }) {
			ask = ""
		}
		say("**Incident: %s** in %s, %s to %s: %s; %s, not %d failures.%s\n", oneLine(i.Reason), tasks(len(i.Tasks)),
			clock(i.From), clock(i.To), about.Means, same, len(i.Tasks), orNothing(" %s", ask))
		name(s, i.Tasks, func(string) string { return "" })
		fmt.Fprintf(s, "   - seen as: %s\n", short(i.Cause, mostSeen))
	}
	for _, group := range groups {
		say("**%s** (%s): %s\n", strings.Join(group.reasons, ", "), tasks(len(group.ids)), group.ask)
		name(s, group.ids, func(id string) string { return short(group.message[id], mostSeen) })
	}
	if unknown, of, signatures := unknowns(d); unknown >= spike && unknown*spikeShare >= of {
		say("**%d of %d failed attempts could not be told** (`unknown`): add a rule for what they print to the file that `recovery.rules_file` names; "+
			"`director classify --explain` shows what was considered. The most frequent: %s.\n", unknown, of, strings.Join(signatures, ", "))
	}
	for _, f := range d.Failed {
		if f.BudgetUsedUp {
			say("**%s** has used up a budget: if it is worth more, answer `/agent retry` on the issue, and its meters begin at zero; or raise the budget in `[recovery]`.\n", oneLine(f.ID))
		}
	}
	if n == 0 {
		s.WriteString("None: nothing failed.\n")
	}
}

func name(s *strings.Builder, ids []string, say func(id string) string) {
	for i, id := range ids {
		if i == mostNamed {
			fmt.Fprintf(s, "   - and %d more\n", len(ids)-i)
			return
		}
		fmt.Fprintf(s, "   - %s%s\n", oneLine(id), orNothing(": %s", say(id)))
	}
}

type asked struct {
	ask     string
	reasons []string
	ids     []string
	message map[string]string
}

// byAsk groups failed tasks by what a person is asked, the most frequent first.
func byAsk(failed []FailedTask) []*asked {
	count := map[string]int{}
	for _, f := range failed {
		count[f.ErrorType]++
	}
	var groups []*asked
	for _, reason := range mostFirst(count) {
		about, _ := recovery.Describe(recovery.Reason(reason))
		for _, f := range failed {
			if f.ErrorType != reason {
				continue
			}
			ask := cmp.Or(oneLine(f.Ask), about.Ask)
			i := slices.IndexFunc(groups, func(g *asked) bool { return g.ask == ask })
			if i < 0 {
				i, groups = len(groups), append(groups, &asked{ask: ask, message: map[string]string{}})
			}
			g := groups[i]
			if name := oneLine(reason); !slices.Contains(g.reasons, name) {
				g.reasons = append(g.reasons, name)
			}
			g.ids, g.message[f.ID] = append(g.ids, f.ID), f.Message
		}
	}
	slices.SortStableFunc(groups, func(a, b *asked) int { return len(b.ids) - len(a.ids) })
	return groups
}

// unknowns counts the failed attempts whose reason could not be told, and names their most frequent signatures. Without a
// timeline it counts tasks.
func unknowns(d ReportData) (unknown, of int, signatures []string) {
	count := map[string]int{}
	see := func(reason, signature string) {
		if of++; reason == string(recovery.Unknown) {
			unknown++
			count[orNothing("`%s`", oneLine(signature))]++
		}
	}
	for _, e := range d.Timeline {
		see(e.Reason, e.Signature)
	}
	if len(d.Timeline) == 0 {
		for _, f := range d.Failed {
			see(f.ErrorType, f.Signature)
		}
	}
	for _, name := range mostFirst(count) {
		if len(signatures) < 3 {
			signatures = append(signatures, fmt.Sprintf("%s (%d times)", cmp.Or(name, "no signature"), count[name]))
		}
	}
	return unknown, of, signatures
}

// nextSteps are the commands to type.
func nextSteps(s *strings.Builder, d ReportData) {
	s.WriteString("\n## Next Steps\n\n")
	if len(d.Failed) == 0 {
		s.WriteString("None: nothing failed.\n")
		return
	}
	s.WriteString("1. Do what is recommended above.\n2. Answer on each issue: remove its blocked label, or write one of these as a comment.\n\n")
	for i, f := range d.Failed {
		if i == mostSteps {
			fmt.Fprintf(s, "   - and on %s more\n", tasks(len(d.Failed)-i))
			break
		}
		fmt.Fprintf(s, "   - %s: `/agent retry <what is to be done differently>`, or `/agent resume` if what was missing is there now\n", cmp.Or(oneLine(f.URL), oneLine(f.ID)))
	}
	again := "report"
	if d.RunID != "" {
		again += " --run " + quoted(d.RunID)
	}
	fmt.Fprintf(s, "\n3. Run `%s` again.\n", d.command(again))
}
