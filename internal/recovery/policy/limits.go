package policy

import (
	"math"
	"slices"
	"strconv"

	"retake/internal/recovery"
)

// Bound is a limit that both policy documents and the configuration can set. Its value is the document's key.
type Bound string

// The bounds. BoundBackoff stands for the whole table [backoff].
const (
	BoundRetries     Bound = "max_retries"
	BoundConsecutive Bound = "max_consecutive_errors"
	BoundIterations  Bound = "iteration_budget"
	BoundPaidCalls   Bound = "paid_call_budget"
	BoundCost        Bound = "cost_budget_usd"
	BoundBackoff     Bound = "backoff"
)

// Limits are the configured limits.
type Limits struct {
	MaxRetries           int // re-dispatches per claim, not counting waits for a limit; or Unlimited
	MaxConsecutiveErrors int // here and below, 0 keeps the policy's limit, and Unlimited removes it
	IterationBudget      int
	PaidCallBudget       int
	CostBudgetUSD        float64
	Backoff              recovery.Backoff // the zero value uses the policy's backoff
	ContinueOnError      bool
	Assumed              []Bound // defaults: a document or preset overrides them
}

// limitRow describes one limit in the configuration, in Limits and in Guards.
type limitRow struct {
	bound  Bound
	key    string // the configuration's key
	leave  string // how to leave the policy's own limit in force
	guard  func(*Guards) float64
	set    func(*Guards, float64)
	limit  func(*Limits) float64
	always bool // set if 0 is an ordinary limit
}

func countRow(b Bound, key string, guard func(*Guards) *int, limit func(*Limits) int) limitRow {
	return limitRow{
		bound: b, key: key, leave: "set that key to 0 or remove it",
		guard: func(g *Guards) float64 { return float64(*guard(g)) },
		set:   func(g *Guards, n float64) { *guard(g) = int(n) },
		limit: func(l *Limits) float64 { return float64(limit(l)) },
	}
}

var limitRows = func() []limitRow {
	retries := countRow(BoundRetries, "director.max_retries", func(g *Guards) *int { return &g.MaxRetries },
		func(l *Limits) int { return l.MaxRetries })
	retries.always, retries.leave = true, "remove that key"
	return []limitRow{
		retries,
		countRow(BoundConsecutive, "recovery.max_consecutive_errors",
			func(g *Guards) *int { return &g.MaxConsecutiveErrors },
			func(l *Limits) int { return l.MaxConsecutiveErrors }),
		countRow(BoundIterations, "recovery.iteration_budget", func(g *Guards) *int { return &g.IterationBudget },
			func(l *Limits) int { return l.IterationBudget }),
		countRow(BoundPaidCalls, "recovery.paid_call_budget", func(g *Guards) *int { return &g.PaidCallBudget },
			func(l *Limits) int { return l.PaidCallBudget }),
		{
			bound: BoundCost, key: "recovery.cost_budget_usd", leave: "set that key to 0 or remove it",
			guard: func(g *Guards) float64 { return g.CostBudgetUSD },
			set:   func(g *Guards, n float64) { g.CostBudgetUSD = n },
			limit: func(l *Limits) float64 { return l.CostBudgetUSD },
		},
	}
}()

// With returns the policy with the configuration's limits applied. A key in the configuration takes precedence over the
// operator's document, then the preset, then the configuration's defaults.
func (p *Policy) With(l Limits) *Policy {
	q := *p
	q.explicitKeys = slices.DeleteFunc(slices.Clone(p.explicitKeys), l.holds)
	for _, r := range limitRows {
		if l.holds(r.bound) || !p.states(r.bound) && r.says(&l) {
			r.set(&q.guards, r.limit(&l))
		}
	}
	if q.usesConfigBackoff && (l.holds(BoundBackoff) || !p.states(BoundBackoff) && l.Backoff != (recovery.Backoff{})) {
		q.backoff, q.backoffLine = l.Backoff, 0
	}
	q.continueOnError = q.continueOnError || l.ContinueOnError
	return &q
}

// states reports whether the policy's document or its preset sets a limit.
func (p *Policy) states(b Bound) bool {
	return slices.Contains(p.explicitKeys, b) || slices.Contains(p.presetKeys, b)
}

// says reports whether the limits set this limit.
func (r *limitRow) says(l *Limits) bool {
	n := r.limit(l)
	return r.always || n != 0 && !math.IsInf(n, 0) && !math.IsNaN(n) && (r.bound != BoundCost || n > 0)
}

// holds reports whether a limit is explicit and therefore overrides the document.
func (l *Limits) holds(b Bound) bool {
	if slices.Contains(l.Assumed, b) {
		return false
	}
	for i := range limitRows {
		if limitRows[i].bound == b {
			return limitRows[i].says(l)
		}
	}
	return l.Backoff != (recovery.Backoff{})
}

// Overruled describes the limits in the policy's own document that the configuration overrides, one per line.
func (p *Policy) Overruled(l Limits) []string {
	var lines []string
	g := p.guards
	for _, r := range limitRows {
		is, holds := r.guard(&g), r.limit(&l)
		if slices.Contains(p.explicitKeys, r.bound) && l.holds(r.bound) && is != holds {
			lines = append(lines, "guards."+string(r.bound)+" = "+plain(is)+" is unused, because the "+
				"configuration's "+r.key+" = "+plain(holds)+" applies ("+r.leave+" to use the policy's value)")
		}
	}
	if slices.Contains(p.explicitKeys, BoundBackoff) && p.usesConfigBackoff && l.holds(BoundBackoff) &&
		p.backoff != l.Backoff {
		lines = append(lines, "[backoff] is unused, because the configuration's [retry] applies (to use [backoff], "+
			"remove [retry] there, or set configured_backoff = false here)")
	}
	return lines
}

// plain formats a number without an exponent.
func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
