package config

import "retake/internal/recovery"

// Limits are what the configuration bounds, whatever the policy.
func (c Config) Limits() recovery.Limits {
	return recovery.Limits{
		MaxRetries: c.Director.MaxRetries, MaxConsecutiveErrors: c.Recovery.MaxConsecutiveErrors,
		IterationBudget: c.Recovery.IterationBudget, PaidCallBudget: c.Recovery.PaidCallBudget,
		CostBudgetUSD: c.Recovery.CostBudgetUSD, ContinueOnError: c.Recovery.ContinueOnError,
		Backoff: recovery.Backoff{
			Linear: c.Retry.BackoffMode == "linear", Initial: c.Retry.BackoffInitial, Max: c.Retry.BackoffMax,
			Factor: c.Retry.BackoffFactor, Jitter: recovery.Jitter(c.Retry.Jitter),
		},
		Assumed: c.assumed,
	}
}

// limitKeys are the keys that bound what a policy's document may bound, too.
var limitKeys = []struct {
	bound recovery.Bound
	keys  []string
}{
	{recovery.BoundRetries, []string{"director.max_retries"}},
	{recovery.BoundConsecutive, []string{"recovery.max_consecutive_errors"}},
	{recovery.BoundIterations, []string{"recovery.iteration_budget"}},
	{recovery.BoundPaidCalls, []string{"recovery.paid_call_budget"}},
	{recovery.BoundCost, []string{"recovery.cost_budget_usd"}},
	{recovery.BoundBackoff, []string{"retry.backoff_mode", "retry.backoff_initial_seconds", "retry.backoff_max_seconds", "retry.backoff_factor", "retry.jitter"}},
}

// LimitsOver are the limits of a configuration over a policy's document that it does not name. The arguments are Load's.
func (c Config) LimitsOver(path string, env []string, overrides map[string]string) recovery.Limits {
	l := newLoader(path)
	if path != "" {
		data, _ := readFile(path) // Load has told what is wrong
		l.file(data)
	}
	l.environment(env)
	l.flags(overrides)
	limits := c.Limits()
	limits.Assumed = l.assumed()
	return limits
}

// assumed are the bounds that nobody has set.
func (l *loader) assumed() (bounds []recovery.Bound) {
	for _, b := range limitKeys {
		if _, set := l.set[l.firstSet(b.keys)]; !set {
			bounds = append(bounds, b.bound)
		}
	}
	return bounds
}
