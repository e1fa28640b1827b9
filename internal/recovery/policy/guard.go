package policy

import (
	"fmt"
	"slices"
	"strconv"

	"retake/internal/recovery"
)

// Guards bound all rows of a policy together. Each can veto another attempt, and is then the reason that is recorded.
// A bound of 0 or less is none, except MaxRetries: there 0 is no retry at all, and less is none.
type Guards struct {
	// re-dispatches over all causes; waits for rate limits are free
	MaxRetries int `toml:"max_retries"`
	// errors in a row that are allowed; one more is vetoed
	MaxConsecutiveErrors int             `toml:"max_consecutive_errors"`
	IterationBudget      int             `toml:"iteration_budget"` // attempts, refunds counted back
	PaidCallBudget       int             `toml:"paid_call_budget"` // paid calls, failed ones too
	CostBudgetUSD        float64         `toml:"cost_budget_usd"`
	WaitsAreErrors       bool            `toml:"waits_are_errors"` // waiting for a limit counts as an error in a row
	OnRetries            recovery.Action `toml:"on_max_retries"`
	OnConsecutive        recovery.Action `toml:"on_max_consecutive_errors"`
	OnIterations         recovery.Action `toml:"on_iteration_budget"`
	OnPaidCalls          recovery.Action `toml:"on_paid_call_budget"`
	OnCost               recovery.Action `toml:"on_cost_budget_usd"`
}

// engineCap bounds the attempts that verdicts grant within one claim, free ones included, whatever a policy says.
const engineCap = 100

// The guards that bound what a task may use up, as verdicts name them.
const (
	GuardBudget     = "budget" // the caller's own
	GuardIterations = "iteration_budget"
	GuardPaidCalls  = "paid_call_budget"
	GuardCost       = "cost_budget"
)

// guardAsks says what a person is asked when a budget has the last word.
var guardAsks = map[string]string{
	GuardBudget: "Decide whether the issue is worth more: if so, answer /agent retry, and its meters begin at " +
		"zero; or raise the budget in [recovery].",
	GuardIterations: "Decide whether the issue is worth more attempts: if so, answer /agent retry, and its meters " +
		"begin at zero; or raise recovery.iteration_budget.",
	GuardPaidCalls: "Decide whether the issue is worth more calls: if so, answer /agent retry, and its meters begin " +
		"at zero; or raise recovery.paid_call_budget.",
	GuardCost: "Decide whether the issue is worth more money: if so, answer /agent retry, and its meters begin " +
		"at zero; or raise recovery.cost_budget_usd.",
}

// GuardThatAsks names the guard that asks a person this; empty: none does.
func GuardThatAsks(ask string) string {
	for _, guard := range []string{GuardBudget, GuardIterations, GuardPaidCalls, GuardCost} {
		if guardAsks[guard] == ask {
			return guard
		}
	}
	return ""
}

// UsedUp names the budget that leaves a task no further attempt; empty: none does.
func (g Guards) UsedUp(t recovery.Tally) string {
	return g.usedUp(&t, max(t.Iterations, 0)-max(t.Refunded, 0))
}

func (g *Guards) usedUp(t *recovery.Tally, iterations int) string {
	switch {
	case g.IterationBudget > 0 && iterations >= g.IterationBudget:
		return GuardIterations
	case g.PaidCallBudget > 0 && t.PaidCalls >= int64(g.PaidCallBudget):
		return GuardPaidCalls
	case g.CostBudgetUSD > 0 && t.CostUSD >= g.CostBudgetUSD:
		return GuardCost
	}
	return ""
}

// PaidCallsLeft are the paid calls that a task may still make; nil: as many as it wants.
func (g Guards) PaidCallsLeft(t recovery.Tally) *int64 {
	if g.PaidCallBudget <= 0 {
		return nil
	}
	return new(max(int64(g.PaidCallBudget)-t.PaidCalls, 0))
}

// Overspent says which budget a running attempt has gone over, for people; empty: none. One that is used up
// exactly is not.
func (g Guards) Overspent(t recovery.Tally) string {
	switch {
	case g.PaidCallBudget > 0 && t.PaidCalls > int64(g.PaidCallBudget):
		return fmt.Sprintf("the task's paid calls went over recovery.paid_call_budget = %d: %d", g.PaidCallBudget,
			t.PaidCalls)
	case g.CostBudgetUSD > 0 && t.CostUSD > g.CostBudgetUSD:
		return fmt.Sprintf("the task's cost went over recovery.cost_budget_usd = %.2f: %.2f", g.CostBudgetUSD,
			t.CostUSD)
	}
	return ""
}

// Refuse is the verdict on a task that has no budget left, whatever its failure's row would say.
func Refuse(reason recovery.Reason, guard, row, why string) recovery.Verdict {
	return recovery.Verdict{
		Action: recovery.Escalate, Reason: reason, Row: row, Veto: guard, Why: why,
		Ask: guardAsks[guard], Error: true,
	}
}

// veto returns the guard that forbids one more attempt (or, for errors in a row, continuing without this one),
// what is done instead, and why.
func (p *Policy) veto(v *recovery.Verdict, s *state,
	facts DecisionInput,
) (guard string, to recovery.Action, why string) {
	g := &p.guards
	again := v.Action.Again()
	switch {
	case v.Error && g.MaxConsecutiveErrors > 0 && s.consecutive() > g.MaxConsecutiveErrors:
		return "consecutive_errors", g.OnConsecutive, strconv.Itoa(s.consecutive()) + " errors in a row, more than " +
			strconv.Itoa(g.MaxConsecutiveErrors)
	case !again:
		return "", "", ""
	case facts.BudgetLeft != nil && *facts.BudgetLeft <= 0:
		return GuardBudget, g.OnIterations, "nothing is left of the budget"
	}
	return p.forbids(s, v.Charges != "")
}

// Forbids says why the guards would veto one more attempt that is charged, whatever failed; empty: they would
// not. Errors in a row are not looked at: they forbid only what follows another error.
func (p *Policy) Forbids(t recovery.Tally) string {
	_, _, why := p.forbids(&state{t: &t}, true)
	return why
}

// forbids returns the guard of what is used up that forbids one more attempt, what is done instead, and why.
func (p *Policy) forbids(s *state, charged bool) (guard string, to recovery.Action, why string) {
	g := &p.guards
	switch guard := g.usedUp(s.t, s.iterations()); {
	case guard == GuardIterations:
		return guard, g.OnIterations, "the iteration budget of " + strconv.Itoa(g.IterationBudget) + " is used up"
	case guard == GuardPaidCalls:
		return guard, g.OnPaidCalls, "the budget of " + strconv.Itoa(g.PaidCallBudget) + " paid calls is used up"
	case guard == GuardCost:
		return guard, g.OnCost, "the budget of " + strconv.FormatFloat(g.CostBudgetUSD, 'f', 2, 64) + " USD is used up"
	case charged && g.MaxRetries >= 0 && s.redispatches() >= g.MaxRetries:
		return "max_retries", g.OnRetries, p.retriesKey() + " = " + strconv.Itoa(g.MaxRetries) +
			" used up over all causes"
	case s.granted() >= engineCap:
		return "engine", recovery.Escalate, strconv.Itoa(engineCap) +
			" attempts were granted within one claim, more than any policy may"
	}
	return "", "", ""
}

// retriesKey is the key that bounds the retries: the configuration's, unless the operator's policy sets its own.
func (p *Policy) retriesKey() string {
	if slices.Contains(p.explicitKeys, BoundRetries) {
		return "guards.max_retries"
	}
	return "director.max_retries"
}

// state is a tally, or the one after the verdict ahead.
type state struct {
	t     *recovery.Tally
	ahead *recovery.Verdict
	same  string // signature that the verdict ahead counts, too
}

// count returns a counter as it stands. Of what was taken, the verdict ahead is added by took.
func (s *state) count(of string) recovery.Count {
	c := s.t.Counter(of)
	if s.ahead != nil {
		if of == s.ahead.Counter || of == s.same { // same is empty, or a signature's
			c.N, c.Step = c.N+1, c.Step+1
		}
		if s.ahead.Restarts {
			c.Step = 0
		}
	}
	return c
}

// took says how often an action was taken under a counter.
func (s *state) took(c *recovery.Count, of string, a recovery.Action) int {
	return s.plus(c.Taken(a), s.ahead != nil && s.ahead.Action == a && (of == s.ahead.Counter || of == s.same))
}

func (s *state) plus(n int, more bool) int {
	if n = max(n, 0); more {
		n++
	}
	return n
}

// consecutive counts the failure that is being decided, too.
func (s *state) consecutive() int {
	return s.plus(s.t.Consecutive, s.ahead != nil && s.ahead.Error) + 1
}

func (s *state) redispatches() int {
	return s.plus(s.t.Redispatches, s.ahead != nil && s.ahead.Charges != "")
}

func (s *state) granted() int { return s.plus(s.t.Granted, s.ahead != nil && s.ahead.Action.Again()) }

func (s *state) iterations() int {
	n := s.plus(s.t.Iterations, s.ahead != nil && s.ahead.Action.Again())
	return n - min(max(s.t.Refunded, 0), n)
}
