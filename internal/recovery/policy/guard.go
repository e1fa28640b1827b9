package policy

import (
	"fmt"
	"slices"
	"strconv"

	"retake/internal/recovery"
)

// Guards limit all rows of a policy together. If a guard vetoes another attempt, its name appears in the verdict. A
// limit of 0 or less means unlimited. For MaxRetries, only a negative value means unlimited.
type Guards struct {
	// MaxRetries limits re-dispatches for all causes together. Waits for rate limits do not count.
	MaxRetries int `toml:"max_retries"`
	// MaxConsecutiveErrors is the maximum permitted number of consecutive errors.
	MaxConsecutiveErrors int             `toml:"max_consecutive_errors"`
	IterationBudget      int             `toml:"iteration_budget"` // attempts minus refunds
	PaidCallBudget       int             `toml:"paid_call_budget"` // paid calls, including failed ones
	CostBudgetUSD        float64         `toml:"cost_budget_usd"`
	WaitsAreErrors       bool            `toml:"waits_are_errors"` // waiting for a limit counts as a consecutive error
	OnRetries            recovery.Action `toml:"on_max_retries"`
	OnConsecutive        recovery.Action `toml:"on_max_consecutive_errors"`
	OnIterations         recovery.Action `toml:"on_iteration_budget"`
	OnPaidCalls          recovery.Action `toml:"on_paid_call_budget"`
	OnCost               recovery.Action `toml:"on_cost_budget_usd"`
}

// engineCap is the maximum number of attempts within one claim, including free attempts, under any policy.
const engineCap = 100

// Names of the guards on a task's usage, as they appear in verdicts.
const (
	GuardBudget     = "budget" // the caller's own budget
	GuardIterations = "iteration_budget"
	GuardPaidCalls  = "paid_call_budget"
	GuardCost       = "cost_budget"
)

// guardAsks maps each budget's guard to the question for a person.
var guardAsks = map[string]string{
	GuardBudget: "Decide whether the issue is worth a larger budget. If so, comment /agent retry, which resets its " +
		"meters to zero, or raise the budget in [recovery].",
	GuardIterations: "Decide whether the issue is worth more attempts. If so, comment /agent retry, which resets its " +
		"meters to zero, or raise recovery.iteration_budget.",
	GuardPaidCalls: "Decide whether the issue is worth more calls. If so, comment /agent retry, which resets its " +
		"meters to zero, or raise recovery.paid_call_budget.",
	GuardCost: "Decide whether the issue is worth more money. If so, comment /agent retry, which resets its meters " +
		"to zero, or raise recovery.cost_budget_usd.",
}

// TopicOf returns the topic of a policy's question, or "" if the question is about the failure.
func TopicOf(v recovery.Verdict) recovery.Topic {
	switch {
	case guardAsks[v.Veto] != "":
		return recovery.Topic(v.Veto)
	case v.Ask != "":
		return recovery.TopicPolicy
	}
	return ""
}

// UsedUp returns the name of an exhausted budget's guard, or "".
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

// PaidCallsLeft returns a task's remaining paid calls, or nil if they are unlimited.
func (g Guards) PaidCallsLeft(t recovery.Tally) *int64 {
	if g.PaidCallBudget <= 0 {
		return nil
	}
	return new(max(int64(g.PaidCallBudget)-t.PaidCalls, 0))
}

// Overspent describes the budget that a running attempt has exceeded, or returns "". An exactly exhausted budget does
// not count.
func (g Guards) Overspent(t recovery.Tally) string {
	switch {
	case g.PaidCallBudget > 0 && t.PaidCalls > int64(g.PaidCallBudget):
		return fmt.Sprintf("the task exceeded recovery.paid_call_budget = %d with %d paid calls", g.PaidCallBudget,
			t.PaidCalls)
	case g.CostBudgetUSD > 0 && t.CostUSD > g.CostBudgetUSD:
		return fmt.Sprintf("the task exceeded recovery.cost_budget_usd = %.2f with a cost of %.2f USD", g.CostBudgetUSD,
			t.CostUSD)
	}
	return ""
}

// Refuse returns the verdict on a task with an exhausted budget, regardless of its row.
func Refuse(reason recovery.Reason, guard, row, why string) recovery.Verdict {
	return recovery.Verdict{
		Action: recovery.Escalate, Reason: reason, Row: row, Veto: guard, Why: why,
		Ask: guardAsks[guard], Error: true,
	}
}

// veto returns the guard that forbids another attempt, the action to take instead, and the reason. After too many
// consecutive errors, it also forbids actions that continue without another attempt.
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
		return GuardBudget, g.OnIterations, "the budget is used up"
	}
	return p.forbids(s, v.Charges != "")
}

// Forbids explains why the guards would veto another charged attempt after any failure, or returns "". It ignores
// consecutive errors, because only another error can exceed their limit.
func (p *Policy) Forbids(t recovery.Tally) string {
	_, _, why := p.forbids(&state{t: &t}, true)
	return why
}

// forbids returns the exhausted guard that forbids another attempt, the action to take instead, and the reason.
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
			" used up, counting all causes"
	case s.granted() >= engineCap:
		return "engine", recovery.Escalate, strconv.Itoa(engineCap) +
			" attempts were granted within one claim, which is the maximum under any policy"
	}
	return "", "", ""
}

// retriesKey returns the key that limits retries: the configuration's key, unless the operator's policy sets it.
func (p *Policy) retriesKey() string {
	if slices.Contains(p.explicitKeys, BoundRetries) {
		return "guards.max_retries"
	}
	return "director.max_retries"
}

// state is a tally. If ahead is set, the state counts as if that verdict had been applied.
type state struct {
	t     *recovery.Tally
	ahead *recovery.Verdict
	same  string // counter of the failure's signature, which the verdict ahead also increments
}

// count returns a counter, including the verdict ahead. The counter's Took does not include that verdict, so callers
// use took instead.
func (s *state) count(of string) recovery.Count {
	c := s.t.Counter(of)
	if s.ahead != nil {
		if of == s.ahead.Counter || of == s.same { // same is empty or a signature
			c.N, c.Step = c.N+1, c.Step+1
		}
		if s.ahead.Restarts {
			c.Step = 0
		}
	}
	return c
}

// took returns how often a counter has led to an action.
func (s *state) took(c *recovery.Count, of string, a recovery.Action) int {
	return s.plus(c.Taken(a), s.ahead != nil && s.ahead.Action == a && (of == s.ahead.Counter || of == s.same))
}

func (s *state) plus(n int, more bool) int {
	if n = max(n, 0); more {
		n++
	}
	return n
}

// consecutive returns the number of consecutive errors, including the current failure.
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
