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

// readingOf returns the classified reason of a run, or "succeeded".
func readingOf(r trial.Result) string { return cmp.Or(string(r.Reason()), "succeeded") }

// mark compares the classification of a run with the table. If the table expects a failure and the run succeeded, the
// agent survived the failure, which also counts as right.
func mark(r trial.Result) string {
	switch {
	case r.Case.Right(r.Reason()):
		return "right"
	case r.Reason() == "":
		return "survived"
	}
	return "**wrong**"
}

// retryRight reports whether the decision to retry fits one of the reasons in the table.
func retryRight(r trial.Result) bool {
	return slices.ContainsFunc(append([]recovery.Reason{r.Case.Reason}, r.Case.Or...), func(want recovery.Reason) bool {
		return recovery.Assert(want).Retry == r.Retry()
	})
}

const head = `# Agents on the fake provider

` + "`make agents`" + ` runs all installed agents against every case of the fake provider
([decision](../decisions/0024-provider-stand-in.md)), and writes this page. ` + "`bin/providersim --list`" + ` describes the
cases. The agents run as they do under a worker. ` + "`make agents-install`" + ` builds some agents from source. Each cell shows
the run's reason or ` + "`succeeded`" + `, and the number of requests with tools. If a run fails, requests after the first are the
agent's retries. Silent retries are cut off at the case's time limit. Some cases have several correct reasons. A run
that survives a failure counts as correct. In tests, the classification rules pass these cases, so these figures measure
the agents.

The last event of a stream shows that the stream is complete ([agents](agents.md)). crush and opencode-go print text
without such an event.

`

// document returns the page in Markdown.
func document(agents []installed, limit, took time.Duration) string {
	var b strings.Builder
	b.WriteString(head)
	fmt.Fprintf(&b, "Each case had a time limit of %.0f s. The run took %.0f s.\n\n", limit.Seconds(), took.Seconds())
	b.WriteString("| agent | version | cases | reason correct | retry decision correct | survived / survivable |\n" +
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
	table(&b, agents)
	return b.String()
}

// table writes the cases with a column for each agent, and then the wrongly classified runs.
func table(b *strings.Builder, agents []installed) {
	if len(agents) == 0 {
		return
	}
	b.WriteString("\n| case | expected |")
	for _, a := range agents {
		fmt.Fprintf(b, " %s |", a.name)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(agents)) + "\n")
	wrong := ""
	for i, r := range agents[0].results {
		fmt.Fprintf(b, "| `%s` | %s |", r.Case.Name, cmp.Or(string(r.Case.Reason), "succeeds"))
		for _, a := range agents {
			r := a.results[i]
			fmt.Fprintf(b, " %s, %d |", readingOf(r), r.Requests)
			if comment := mark(r); comment == "**wrong**" {
				wrong += fmt.Sprintf("| `%s` | `%s` | %s | %s |\n", a.name, r.Case.Name, readingOf(r), quote(r.Cause()))
			}
		}
		b.WriteString("\n")
	}
	if wrong != "" {
		b.WriteString("\n## Misread runs\n\n| agent | case | read as | cause |\n|---|---|---|---|\n" + wrong)
	}
}

func share(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

// quote shortens text and escapes it for a table.
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
