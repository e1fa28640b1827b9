package policy

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery/recoverytest"

	"retake/internal/recovery"
)

const specification = "../../../docs/specs/error-handling.md"

// TestSpecificationOfPolicies compares the tables of policies in the specification with the presets.
func TestSpecificationOfPolicies(t *testing.T) {
	recoverytest.Compare(t, specification,
		recoverytest.Table{Name: "actions", Rows: actionRows()},
		recoverytest.Table{Name: "policy", Rows: policyRows(t)},
		recoverytest.Table{Name: "preset-bounds", Rows: boundRows(t)},
	)
}

// TestSpecificationsExamplePolicy checks that the example document works, and that its faults read as in the text.
func TestSpecificationsExamplePolicy(t *testing.T) {
	data, err := os.ReadFile(specification)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(data), "## Writing a policy")
	_, rest, _ := strings.Cut(section, "```toml\n")
	doc, _, _ := strings.Cut(rest, "```")
	p, faults, err := Review("own.toml", nil, []byte(doc), nil)
	if err != nil || len(faults) > 0 {
		t.Fatal(faults, err)
	}
	l := Limits{MaxRetries: 3, MaxConsecutiveErrors: 5}
	shown := strings.Join(strings.Fields(section), " ")
	if says := p.Overruled(l); len(says) != 1 || !strings.Contains(shown, "warning: "+says[0]) {
		t.Errorf("the specification does not say %q", says)
	}
	_, faults, _ = Review("own.toml", nil, []byte(strings.Replace(doc, `"retry", attempts`, `"retyr", attempts`, 1)),
		nil)
	if len(faults) != 1 || !strings.Contains(section, "\n"+faults[0].String()+"\n") {
		t.Errorf("the specification does not say %q", faults)
	}
	for _, r := range limitRows {
		leave := "left out, or 0"
		if r.always {
			leave = "left out"
		}
		if !strings.Contains(section, "| `"+string(r.bound)+"` | `"+r.key+"` | "+leave+" |") {
			t.Errorf("the specification lacks the row about %s", r.bound)
		}
	}
}

// ladderText formats a row's ladder for one cell.
func ladderText(r Row) string {
	var steps []string
	for _, g := range r.Ladder {
		step := string(g.Action)
		switch {
		case g.Times < 0:
			step += " ×∞"
		case g.Times > 1:
			step += " ×" + strconv.Itoa(g.Times)
		}
		if len(g.When) > 0 {
			when := make([]string, len(g.When))
			for i, c := range g.When {
				when[i] = strings.Replace(string(c), "!", "not ", 1)
			}
			step += " (" + strings.Join(when, ", ") + ")"
		}
		steps = append(steps, step)
	}
	end := string(r.Then)
	if r.Becomes != "" {
		end = "`" + string(r.Becomes) + "`"
	}
	if r.Fatal {
		end += " (fatal)"
	}
	return strings.Join(append(steps, end), " → ")
}

func shortly(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return Span(d)
}

func actionRows() []string {
	rows := []string{"| action | means | another attempt | charged |", "|---|---|---|---|"}
	for _, a := range recovery.Actions {
		again, charged := "no", ""
		if a.Again {
			again, charged = "yes", "the cause"
		}
		if a.Free {
			charged = "nothing"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", a.Action, a.Means, again, charged))
	}
	return rows
}

func policyRows(t *testing.T) []string {
	rows := []string{"| on | ladder | longest stated wait | why |", "|---|---|---|---|"}
	for _, r := range preset(t, "director").Table() {
		if r.Caller != "" { // listed with the callers' rows
			continue
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", r.On, ladderText(r), shortly(r.Wait.Longest), r.Why))
	}
	return rows
}

// backoffText formats a backoff for one cell.
func backoffText(b recovery.Backoff) string {
	s := fmt.Sprintf("%s × %g^(n-1)", b.Initial, b.Factor)
	switch {
	case b.Linear:
		s = fmt.Sprintf("%s × n", b.Initial)
	case b.Factor <= 1:
		s = b.Initial.String()
	}
	if b.Factor > 1 || b.Linear {
		s += ", at most " + shortly(b.Max)
	}
	switch b.Jitter {
	case recovery.AroundJitter:
		return s + fmt.Sprintf(", ±%g %%", b.Spread*100)
	case recovery.AdditiveJitter:
		if b.Spread > 0 {
			s += fmt.Sprintf(", up to +%g %%", b.Spread*100)
		}
		if b.Add > 0 {
			s += ", up to +" + b.Add.String()
		}
		return s
	}
	return s + ", jitter " + string(b.Jitter)
}

func boundRows(t *testing.T) []string {
	rows := []string{"| preset | backoff | counts | guards |", "|---|---|---|---|"}
	for _, name := range Presets {
		p := preset(t, name)
		g := p.Guards()
		var guards []string
		for _, b := range []struct {
			name  string
			n     int
			bound bool
			to    recovery.Action
		}{
			{"re-dispatches", g.MaxRetries, g.MaxRetries >= 0, g.OnRetries},
			{"errors in a row", g.MaxConsecutiveErrors, g.MaxConsecutiveErrors > 0, g.OnConsecutive},
			{"iterations", g.IterationBudget, g.IterationBudget > 0, g.OnIterations},
			{"paid calls", g.PaidCallBudget, g.PaidCallBudget > 0, g.OnPaidCalls},
		} {
			if b.bound {
				guards = append(guards, fmt.Sprintf("%d %s, then %s", b.n, b.name, b.to))
			}
		}
		var counts []string
		for _, r := range p.Table() {
			if c := "by " + string(r.Count); len(r.Ladder) > 0 && !strings.Contains(strings.Join(counts, ","), c) {
				counts = append(counts, c)
			}
		}
		own := ""
		if p.usesConfigBackoff {
			own = "`[retry]`: "
		}
		rows = append(rows, fmt.Sprintf("| %s | %s%s | %s | %s |", name, own, backoffText(p.Backoff()),
			strings.Join(counts, ", "), strings.Join(guards, "; ")))
	}
	return rows
}
