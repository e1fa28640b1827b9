package fsmtest

import (
	"fmt"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

func withinBudget(h *history, p *process, _ fsm.Record, f fsm.Fact) string {
	b, ok := f.(fsm.AttemptBegan)
	if !ok {
		return ""
	}
	c := h.claim(b.Task)
	if c == nil || c.last == nil {
		if c != nil && b.Next.Charges != "" {
			return fmt.Sprintf("attempt %d of %s is charged without a verdict", b.N, b.Task)
		}
		return ""
	}
	switch reason := b.Next.Reason; {
	case reason != c.reason:
		return fmt.Sprintf("attempt %d of %s is for %q, the verdict was about %s", b.N, b.Task, reason, c.reason)
	case c.spared > mostSpared:
		return fmt.Sprintf("attempt %d of %s: spared %d times", b.N, b.Task, c.spared)
	case c.last.Row == rowIncident || c.healed: // free, and bounded by how often that happens
	case !c.last.Action.Again():
		return fmt.Sprintf("attempt %d of %s begins, the verdict was %s", b.N, b.Task, c.last.Action)
	case c.byReason[reason] >= retries(p.cfg.Policy, reason):
		return fmt.Sprintf("attempt %d of %s: %s has used up %d", b.N, b.Task, reason, c.byReason[reason])
	case b.Next.Charges != "" && c.redispatches >= h.w.maxRetries:
		return fmt.Sprintf("attempt %d of %s: director.max_retries = %d used up", b.N, b.Task, h.w.maxRetries)
	case b.Next.Charges == "" && h.w.preset == "director" && !c.last.Action.About().Free:
		return fmt.Sprintf("attempt %d of %s: %s is free of charge", b.N, b.Task, c.last.Action)
	}
	return ""
}

// What the specification says of incidents.
const (
	mostSpared  = 10
	rowIncident = "director.incident"
)

func affords(_ *history, p *process, _ time.Time, body fsm.EventBody, _ []fsm.Fact, _ []fsm.Effect) string {
	t, current := p.m.Worker(speaker(body))
	if _, hello := body.(fsm.Hello); hello || !current || t.State == fsm.Stopping {
		return ""
	}
	if a, _ := t.Activity(); a.Usage != nil && t.Tally.PaidCalls+a.Usage.PaidCalls > paidCalls {
		return fmt.Sprintf("%s has used %d paid calls before this attempt and %d in it, and goes on", t.Key, t.Tally.PaidCalls, a.Usage.PaidCalls)
	}
	return ""
}

// nothingIntoOutage: what is dispatched while a breaker is open, or beside its canary, runs into the same outage.
func nothingIntoOutage(_ *history, p *process, _ time.Time, _ fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	n := 0
	for _, f := range facts {
		if p, ok := f.(fsm.EffectPlanned); ok && (p.Effect.Kind == fsm.DoClaim || p.Effect.Kind == fsm.DoRecheck) {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	for _, i := range p.m.Incidents() {
		switch i.Breaker.State(recovery.DefaultBreaker, p.m.Now()) {
		case recovery.BreakerOpen:
			return fmt.Sprintf("%d tasks are dispatched, %s is open", n, i.Key)
		case recovery.BreakerHalfOpen:
			if n > 1 {
				return fmt.Sprintf("%d tasks are dispatched, %s has let one through", n, i.Key)
			}
		}
	}
	return ""
}
