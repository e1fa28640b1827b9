package fsmtest

import (
	"fmt"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery/policy"
)

func withinBudget(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	b, ok := f.(fsm.AttemptBegan)
	if !ok {
		return ""
	}
	c := h.claim(b.Task)
	if afterSuccess(b.Next) { // validatedCleanly bounds these
		return ""
	}
	if c == nil || c.last == nil {
		if c != nil && b.Next.Charges != "" {
			return fmt.Sprintf("attempt %d of %s is charged without a verdict", b.N, b.Task)
		}
		return ""
	}
	g := h.set.cfg.Policy.Guards()
	g.IterationBudget = c.by.cfg.Policy.Guards().IterationBudget // the others hold at once
	switch reason := b.Next.Reason; {
	case reason != c.reason:
		return fmt.Sprintf("attempt %d of %s is for %q, the verdict was about %s", b.N, b.Task, reason, c.reason)
	case c.incidentWaits > maxIncidentWaits:
		return fmt.Sprintf("attempt %d of %s: waited for an incident %d times", b.N, b.Task, c.incidentWaits)
	case c.usedUp(g) != "" && (!b.Next.Validate || b.Next.Charges != ""):
		// also where an incident makes an agent's attempt free
		return fmt.Sprintf("attempt %d of %s begins, %s", b.N, b.Task, c.usedUp(g))
	case c.last.Row == rowIncident || c.healed: // free, and bounded by how often that happens
	case !c.last.Action.Again():
		return fmt.Sprintf("attempt %d of %s begins, the verdict was %s", b.N, b.Task, c.last.Action)
	case c.granted: // before a person set the meters
	case c.fixRounds > 0 && c.fixRounds >= c.fixMost:
		return fmt.Sprintf("attempt %d of %s: %d fix rounds, and the first", b.N, b.Task, c.fixRounds)
	case !noPolicys(c.last.Row) && c.counts == c.by.preset && c.byReason[c.counter()] >= retries(c.by.cfg.Policy,
		reason, c.caller):
		return fmt.Sprintf("attempt %d of %s: %s has used up %d", b.N, b.Task, c.counter(), c.byReason[c.counter()])
	case b.Next.Charges != "" && c.redispatches >= c.by.limits.MaxRetries:
		return fmt.Sprintf("attempt %d of %s: director.max_retries = %d used up", b.N, b.Task, c.by.limits.MaxRetries)
	case b.Next.Charges == "" && c.by.preset == "director" && c.last.Row != rowFixRound && !c.last.Action.About().Free:
		return fmt.Sprintf("attempt %d of %s: %s is free of charge", b.N, b.Task, c.last.Action)
	}
	return ""
}

// What the specification says of incidents.
const (
	maxIncidentWaits = 10
	rowIncident      = "director.incident"
)

// usedUp says which of a claim's meters leave no further attempt.
func (c *claim) usedUp(g policy.Guards) string {
	iterations := c.iterations
	if c.healed {
		iterations++ // no verdict has granted the attempt
	}
	switch {
	case g.PaidCallBudget > 0 && c.calls >= int64(g.PaidCallBudget):
		return fmt.Sprintf("%d paid calls were made, the budget is %d", c.calls, g.PaidCallBudget)
	case g.CostBudgetUSD > 0 && c.cost >= g.CostBudgetUSD:
		return fmt.Sprintf("it has cost %.2f, the budget is %.2f", c.cost, g.CostBudgetUSD)
	case g.IterationBudget > 0 && iterations > g.IterationBudget:
		return fmt.Sprintf("it is granted %d times, the budget is %d", iterations, g.IterationBudget)
	}
	return ""
}

func affords(_ *history, p *process, _ time.Time, body fsm.EventBody, _ []fsm.Fact, _ []fsm.Effect) string {
	if _, hello := body.(fsm.Hello); hello {
		return ""
	}
	for _, worker := range speakers(body) {
		if wrong := affordsAttempt(p, worker); wrong != "" {
			return wrong
		}
	}
	return ""
}

func affordsAttempt(p *process, worker string) string {
	t, current := p.m.Worker(worker)
	if !current || t.State == fsm.Stopping {
		return ""
	}
	if t.Validates { // it spends nothing
		return ""
	}
	calls, cost := t.Used.PaidCalls, t.Used.CostUSD
	if a, _ := t.Activity(); a.Usage != nil {
		calls, cost = max(calls, a.Usage.PaidCalls), max(cost, a.Usage.CostUSD)
	}
	g := p.cfg.Policy.Guards()
	switch {
	case g.PaidCallBudget > 0 && t.Tally.PaidCalls+calls > int64(g.PaidCallBudget):
		return fmt.Sprintf("%s has used %d paid calls before this attempt and %d in it, and goes on", t.Key,
			t.Tally.PaidCalls, calls)
	case g.CostBudgetUSD > 0 && t.Tally.CostUSD+cost > g.CostBudgetUSD:
		return fmt.Sprintf("%s has cost %.2f before this attempt and %.2f in it, and goes on", t.Key, t.Tally.CostUSD,
			cost)
	}
	return ""
}

// usageKept: what the journal has of an attempt's usage only rises, and is counted before the attempt is judged.
func usageKept(h *history, _ *process, _ fsm.Record, f fsm.Fact) string {
	switch f := f.(type) {
	case fsm.UsageCounted:
		if c := h.claim(f.Task); c != nil && f.PaidCalls == nil && f.Usage.PaidCalls < c.used.PaidCalls {
			return fmt.Sprintf("%s had made %d paid calls, %d are counted", f.Task, c.used.PaidCalls, f.Usage.PaidCalls)
		}
	case fsm.VerdictMade:
		if c := h.claim(f.Task); c != nil && c.used.PaidCalls > 0 {
			return fmt.Sprintf("%s is judged, and %d paid calls of its attempt are not counted", f.Task,
				c.used.PaidCalls)
		}
	}
	return ""
}

// usageRestored: a director begins with every paid call that the journal has.
func usageRestored(h *history, p *process) string {
	for _, c := range h.claims {
		if t := p.m.Task(c.key); t != nil && (t.Used.PaidCalls != c.used.PaidCalls || t.Tally.PaidCalls != c.calls) {
			return fmt.Sprintf("p%d finds %d and %d paid calls of %s, the journal has %d and %d", p.id,
				t.Tally.PaidCalls, t.Used.PaidCalls, c.key,
				c.calls, c.used.PaidCalls)
		}
	}
	return ""
}

// usageDurable: a heartbeat that tells of another paid call makes a fact of it.
func usageDurable(_ *history, p *process, _ time.Time, body fsm.EventBody, _ []fsm.Fact, _ []fsm.Effect) string {
	for _, b := range signsIn(body) {
		if t, current := p.m.Worker(b.Worker); current && b.Activity.Usage != nil &&
			t.Used.PaidCalls < b.Activity.Usage.PaidCalls {
			return fmt.Sprintf("%s has made %d paid calls, %d are kept", b.Worker, b.Activity.Usage.PaidCalls,
				t.Used.PaidCalls)
		}
	}
	return ""
}
