package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/agenttest/trial"
	"retake/internal/recovery"
)

// readingOf is how a run was read, in a word.
func readingOf(r trial.Result) string { return cmp.Or(string(r.Reason()), "succeeded") }

// mark says whether a reading is one that the table has. Success is none where the table wants a failure: that
// agent got past it.
func mark(r trial.Result) string {
	switch {
	case r.Case.Right(r.Reason()):
		return "right"
	case r.Reason() == "":
		return "it got past"
	}
	return "**wrong**"
}

// retryRight reports whether a run may be tried again, or not, as one of the reasons that the table has.
func retryRight(r trial.Result) bool {
	return slices.ContainsFunc(append([]recovery.Reason{r.Case.Reason}, r.Case.Or...), func(want recovery.Reason) bool {
		return recovery.Assert(want).Retry == r.Retry()
	})
}

const head = `# Agents on the stand-in for providers

Written by ` + "`make agents`" +
	`: every agent that is installed and known, on every case of the stand-in ([decision](../decisions/0024-provider-stand-in.md)),
each run as a worker runs it (profile, reader, report) and read as the director reads it. ` + "`make agents-install`" +
	` builds agents that can be
had as source. "Read as" is the reason that the run ended with; "again" is whether the director may try again; "requests" are those with
tools, so that more than one without a success are the agent's own tries. An agent that tries again in silence for longer than its time
is ended: what it was waiting for is known only if it stands in its log. Clients make
different things of some cases: there other readings than the one under "the table says" are right, too. A run that got past a failure
counts as right. The bodies of the cases are a regression test of the rules: what these figures measure is what agents make of them.

`

// document is the page.
func document(agents []installed, limit, took time.Duration) string {
	var b strings.Builder
	b.WriteString(head)
	fmt.Fprintf(&b, "An agent had %.0f s for a case; all of it took %.0f s.\n\n", limit.Seconds(), took.Seconds())
	b.WriteString("| agent | version | cases | read right | again or not right | got past what it should |\n" +
		"|---|---|---:|---:|---:|---:|\n")
	for _, a := range agents {
		right, again, past, passable := 0, 0, 0, 0
		for _, r := range a.results {
			if r.Case.Right(r.Reason()) || r.Reason() == "" {
				right++
			}
			if retryRight(r) || r.Reason() == "" {
				again++
			}
			if r.Case.Succeeds() {
				passable++
				if r.Reason() == "" {
					past++
				}
			}
		}
		n := len(a.results)
		fmt.Fprintf(&b, "| `%s` | %s | %d | %d (%.0f %%) | %d (%.0f %%) | %d of %d |\n", a.name, a.version, n, right,
			share(right, n), again, share(again, n), past, passable)
	}
	for _, a := range agents {
		fmt.Fprintf(&b, "\n## %s\n\n| case | what happens | the table says | read as | again | requests | seconds | "+
			"|\n|---|---|---|---|---|---:|---:|---|\n", a.name)
		for _, r := range a.results {
			again := "no"
			if r.Retry() {
				again = "yes"
			}
			if r.Reason() == "" {
				again = ""
			}
			comment := mark(r)
			if comment != "right" || r.Reason() != "" && r.Case.Succeeds() {
				comment += ": " + quote(r.Cause())
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %d | %.1f | %s |\n", r.Case.Name, r.Case.About,
				cmp.Or(string(r.Case.Reason), "succeeds"),
				readingOf(r), again, r.Requests, r.Took.Seconds(), strings.TrimSuffix(comment, ": "))
		}
	}
	return b.String()
}

func share(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

// quote makes a short text harmless in a table.
func quote(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if s == "" {
		return ""
	}
	if r := []rune(s); len(r) > 100 {
		s = string(r[:100]) + "…"
	}
	return "`" + strings.NewReplacer("`", "'", "|", "¦").Replace(s) + "`"
}
