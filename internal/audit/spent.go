package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
)

// Spent is the usage of all attempts. A person's answer does not reset it, unlike the usage in Stats and BudgetRow that
// counts against the budget.
type Spent struct {
	PaidCalls int64   `json:"paid_calls"`
	Tokens    int64   `json:"tokens"`
	CostUSD   float64 `json:"cost_usd"`
}

// String lists the figures that are not zero, or returns "-".
func (s Spent) String() string {
	var parts []string
	if s.PaidCalls > 0 {
		parts = append(parts, several(int(s.PaidCalls), "paid call"))
	}
	if s.Tokens > 0 {
		parts = append(parts, several(int(s.Tokens), "token"))
	}
	if s.CostUSD > 0 {
		parts = append(parts, fmt.Sprintf("%.2f USD", s.CostUSD))
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

func (s Spent) plus(u Spent) Spent {
	sum := s.total().Plus(u.total())
	return Spent{sum.PaidCalls, sum.Tokens, sum.CostUSD}
}

func (s Spent) atLeast(u Spent) Spent {
	return Spent{max(s.PaidCalls, u.PaidCalls), max(s.Tokens, u.Tokens), max(s.CostUSD, u.CostUSD)}
}

func (s Spent) total() recovery.Usage {
	return recovery.Usage{PaidCalls: s.PaidCalls, Tokens: s.Tokens, CostUSD: s.CostUSD}
}

func (s Spent) usage() wire.Usage {
	return wire.Usage{Tokens: s.Tokens, CostUSD: s.CostUSD, PaidCalls: int(s.PaidCalls)}
}

// SpentLine is the spending of one issue or day, for a report.
type SpentLine struct {
	Of string `json:"of"`
	Spent
}

// spentBy totals the attempts of a run, or of all runs, by a property. It skips attempts without that property.
func (s *Store) spentBy(run string, by func(Meta) string) map[string]Spent {
	sums := map[string]Spent{}
	for _, m := range s.Attempts {
		if key := by(m); m.Usage != nil && key != "" && (run == "" || m.RunID == run) {
			sums[key] = sums[key].plus(Spent{int64(m.Usage.PaidCalls), m.Usage.Tokens, m.Usage.CostUSD})
		}
	}
	return sums
}

// spentByIssue adds up attempts by issue. The audits of some attempts may have been removed, so it uses the figures in
// the task's state if they are higher.
func (s *Store) spentByIssue(run string) map[string]Spent {
	sums := s.spentBy(run, func(m Meta) string { return strings.ToLower(m.Issue) })
	for _, t := range s.Tasks {
		if run != "" && t.RunID != run {
			continue
		}
		known, key := t.Spent, strings.ToLower(t.Issue)
		if known == (Spent{}) { // written by an earlier release
			known = Spent{int64(t.PaidCallsUsed), t.Tokens, t.CostUSD}
			if t.Written != nil { // a person may have edited PaidCallsUsed
				known.PaidCalls = int64(t.Written.PaidCallsUsed)
			}
		}
		if run == "" || sums[key] == (Spent{}) {
			sums[key] = sums[key].atLeast(known)
		}
	}
	return sums
}

// spentByDay adds up attempts by the UTC day on which they ended.
func (s *Store) spentByDay(run string) []SpentLine {
	return linesOf(s.spentBy(run, func(m Meta) string {
		if m.EndedAt.IsZero() {
			return ""
		}
		return m.EndedAt.UTC().Format(time.DateOnly)
	}))
}

func linesOf(sums map[string]Spent) (lines []SpentLine) {
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		lines = append(lines, SpentLine{key, sums[key]})
	}
	return lines
}

// addSpent adds the usage to a report: in total, by issue and by day.
func (s *Store) addSpent(d *ReportData) {
	var all Spent
	sums := s.spentByIssue(d.RunID)
	for _, m := range slices.Concat(issuesOf(s.Attempts), tasksOf(s.Tasks)) { // in their original spelling
		if sum, ok := sums[strings.ToLower(m)]; ok && sum != (Spent{}) {
			d.ByIssue, all = append(d.ByIssue, SpentLine{m, sum}), all.plus(sum)
		}
		delete(sums, strings.ToLower(m))
	}
	slices.SortStableFunc(d.ByIssue, func(a, b SpentLine) int {
		return cmp.Or(cmp.Compare(b.CostUSD, a.CostUSD), cmp.Compare(b.PaidCalls, a.PaidCalls))
	})
	d.Usage, d.ByDay = all.usage(), s.spentByDay(d.RunID)
}

func issuesOf(attempts []Meta) (all []string) {
	for _, m := range attempts {
		all = append(all, m.Issue)
	}
	return all
}

func tasksOf(tasks []TaskRecord) (all []string) {
	for _, t := range tasks {
		all = append(all, t.Issue)
	}
	return all
}
