package advise

import (
	"fmt"
	"strconv"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// guardRow is one guard, which is a limit that applies to all rows of a policy.
type guardRow struct {
	name  string // the guard's key in a policy document
	bound float64
	set   bool
	to    recovery.Action
	means string
}

func guardRows(g policy.Guards) []guardRow {
	return []guardRow{
		{
			"max_retries", float64(g.MaxRetries), g.MaxRetries >= 0, g.OnRetries,
			"re-dispatches for any cause except rate limits",
		},
		{
			"max_consecutive_errors", float64(g.MaxConsecutiveErrors), g.MaxConsecutiveErrors > 0, g.OnConsecutive,
			"errors in a row",
		},
		{
			"iteration_budget", float64(g.IterationBudget), g.IterationBudget > 0, g.OnIterations,
			"attempts, less refunds",
		},
		{
			"paid_call_budget", float64(g.PaidCallBudget), g.PaidCallBudget > 0, g.OnPaidCalls,
			"paid calls, including failed calls",
		},
		{"cost_budget_usd", g.CostBudgetUSD, g.CostBudgetUSD > 0, g.OnCost, "USD"},
	}
}

// guardTexts describes the guards.
func guardTexts(g policy.Guards) []string {
	var lines []string
	for _, r := range guardRows(g) {
		if r.set {
			lines = append(lines, fmt.Sprintf("%-23s %s %s, then %s", r.name, strconv.FormatFloat(r.bound, 'f', -1, 64),
				r.means, r.action()))
		}
	}
	if g.WaitsAreErrors {
		lines = append(lines, "waiting for a limit counts as a consecutive error")
	}
	if lines == nil {
		lines = []string{"only the state machine's limits"}
	}
	return lines
}

// action returns the action to take instead of another attempt when the limit is reached.
func (r guardRow) action() recovery.Action {
	if r.to == "" {
		return recovery.Escalate
	}
	return r.to
}
