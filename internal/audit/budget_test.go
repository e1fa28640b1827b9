package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

func budgetOf(t *testing.T, dir string) []BudgetRow {
	t.Helper()
	s, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s.Budget()
}

func TestBudget(t *testing.T) {
	dir := fleet(t)
	rows := func() []BudgetRow { return budgetOf(t, dir) }
	for _, c := range []struct {
		issue string
		want  string
	}{
		{"acme/widgets#5", "[acme/widgets#5]"},
		{"ACME/Widgets#5", "[acme/widgets#5]"},
		{"5", "[acme/widgets#5]"},
		{"#5", "[acme/widgets#5]"},
		{"99", "[]"},
	} {
		found, err := OnlyIssue(rows(), c.issue)
		var got []string
		for _, r := range found {
			got = append(got, r.Issue)
		}
		if fmt.Sprint(got) != c.want || errors.Is(err, ErrNoTask) != (c.want == "[]") {
			t.Errorf("%s: %v, %v", c.issue, got, err)
		}
	}
	if _, err := OnlyIssue([]BudgetRow{{Issue: "a/b#5"}, {Issue: "a/c#5"}}, "5"); !errors.Is(err, errWhichTask) ||
		errors.Is(err, ErrNoTask) {
		t.Errorf("the number of two issues: %v", err)
	}
	for state, want := range map[string]string{
		"Running": "no (budget)", "Backoff": "no (budget)",
		"Blocked": "no (blocked, budget)", "Done": "-", "Released": "-",
	} {
		used := BudgetRow{State: state, PaidCalls: 10, PaidBudget: 10}
		if got := used.mayRun(); got != want {
			t.Errorf("%s without budget: %q, want %q", state, got, want)
		}
	}
	if a, b := (BudgetRow{State: "Running"}).mayRun(), (BudgetRow{State: "Blocked"}).mayRun(); a != "yes" ||
		b != "no (blocked)" {
		t.Errorf("%q, %q", a, b)
	}
	row, _ := OnlyIssue(rows(), "5")
	if row[0].MayRun {
		t.Errorf("10 of 10, and may run: %+v", row[0])
	}
}

func TestBudgetAfterAnEdit(t *testing.T) {
	dir := fleet(t)
	rows := func() []BudgetRow { return budgetOf(t, dir) }
	path, err := StatsPath(dir, "Acme/widgets#5")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(setPaid(10, 0)(text(t, path))), 0o600); err != nil { // a person's edit
		t.Fatal(err)
	}
	if row, _ := OnlyIssue(rows(), "5"); !row[0].MayRun || !row[0].Edited || *row[0].Was != 10 {
		t.Errorf("%+v", row)
	}
	var out bytes.Buffer
	if err := ShowBudget(&out, rows()[3:5], false); err != nil {
		t.Fatal(err)
	}
	golden(t, "budget.txt", out.String())
	out.Reset()
	if err := ShowBudget(&out, rows()[4:5], true); err != nil ||
		!strings.Contains(out.String(), `"paid_calls_used":0,"paid_call_budget":10`) {
		t.Errorf("%v: %s", err, out.String())
	}
}
