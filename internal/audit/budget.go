package audit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// BudgetRow summarizes the usage of one task. PaidCalls, Iterations and CostUSD cover the period since a person last
// answered.
type BudgetRow struct {
	Issue      string     `json:"issue"`
	State      string     `json:"state"`
	PaidCalls  int        `json:"paid_calls_used"`
	PaidBudget int        `json:"paid_call_budget"` // 0: unlimited
	Iterations Iterations `json:"iterations"`
	CostUSD    float64    `json:"cost_usd"`
	CostBudget float64    `json:"cost_budget_usd"` // 0: unlimited
	MayRun     bool       `json:"may_run"`         // result of Allowed, regardless of the task's state
	Spent      Spent      `json:"spent"`           // total of all attempts since the claim began
	// Edited means that a person changed PaidCalls in the file. The next director uses that number when it starts.
	// Was is the director's number before the edit.
	Edited bool `json:"edited,omitempty"`
	Was    *int `json:"was,omitempty"`
}

func budgetRow(t TaskRecord) BudgetRow {
	r := BudgetRow{
		Issue: t.Issue, State: t.State, PaidCalls: t.PaidCallsUsed, PaidBudget: t.PaidCallBudget,
		Iterations: t.Iterations,
		CostUSD:    t.CostUSD, CostBudget: t.CostBudgetUSD,
	}
	if r.Edited = t.Edited(); r.Edited && t.Written != nil {
		r.Was = &t.Written.PaidCallsUsed
	}
	r.MayRun = r.Allowed()
	return r
}

// Allowed reports whether the budgets for paid calls, iterations and cost all permit another attempt.
func (r BudgetRow) Allowed() bool {
	it := r.Iterations
	return (r.PaidBudget <= 0 || r.PaidCalls < r.PaidBudget) &&
		(it.Budget <= 0 || it.Used-it.Refunded < it.Budget) &&
		(r.CostBudget <= 0 || r.CostUSD < r.CostBudget)
}

// Over reports whether the task is over, so that its budgets no longer matter.
func (r BudgetRow) Over() bool { return claimOver(r.State) }

// mayRun returns the column that shows whether the task can have another attempt.
func (r BudgetRow) mayRun() string {
	var why []string
	if r.State == stateBlocked {
		why = append(why, "blocked")
	}
	if !r.Allowed() {
		why = append(why, "budget")
	}
	switch {
	case r.Over():
		return "-"
	case why == nil:
		return "yes"
	}
	return "no (" + strings.Join(why, ", ") + ")"
}

// Budget returns the usage of every task.
func (s *Store) Budget() []BudgetRow {
	rows, spent := make([]BudgetRow, 0, len(s.Tasks)), s.spentByIssue("")
	for _, t := range s.Tasks {
		row := budgetRow(t)
		row.Spent = spent[strings.ToLower(t.Issue)]
		rows = append(rows, row)
	}
	return rows
}

var (
	// ErrNoTask reports an unknown issue.
	ErrNoTask = errors.New("audit: unknown task")
	// errWhichTask reports an ambiguous issue number.
	errWhichTask = errors.New("audit: more than one task has that number")
)

// OnlyIssue returns the row of one issue: owner/repo#n (ignoring case), or #n or n if only one repository has that
// number.
func OnlyIssue(rows []BudgetRow, issue string) ([]BudgetRow, error) {
	var found []BudgetRow
	for _, r := range rows {
		_, n, _ := strings.Cut(r.Issue, "#")
		if strings.EqualFold(r.Issue, issue) || strings.TrimPrefix(issue, "#") == n {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%w: %s; director budget show lists all known tasks", ErrNoTask, issue)
	case 1:
		return found, nil
	}
	return nil, fmt.Errorf("%w: %s could be %s or %s; specify the repository", errWhichTask, issue, found[0].Issue,
		found[1].Issue)
}

// ShowBudget prints rows as a table, or as JSON with one row per line.
func ShowBudget(out io.Writer, rows []BudgetRow, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(out)
		for _, r := range rows {
			if err := e.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprint(w, "ISSUE\tSTATE\tPAID CALLS\tITERATIONS\tCOST (USD)\tMAY RUN\tSPENT\n")
	for _, r := range rows {
		note := ""
		if r.Edited {
			note = " (edited)"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s%s\t%s\t%s\t%s\t%s\n", r.Issue, cmp.Or(r.State, "-"),
			of(fmt.Sprint(r.PaidCalls), r.PaidBudget > 0, fmt.Sprint(r.PaidBudget)), note,
			of(fmt.Sprint(r.Iterations.Used-r.Iterations.Refunded), r.Iterations.Budget > 0,
				fmt.Sprint(r.Iterations.Budget)),
			of(fmt.Sprintf("%.2f", r.CostUSD), r.CostBudget > 0, fmt.Sprintf("%.2f", r.CostBudget)), r.mayRun(),
			r.Spent)
	}
	return w.Flush()
}

func of(used string, bounded bool, budget string) string {
	if bounded {
		return used + " of " + budget
	}
	return used
}
