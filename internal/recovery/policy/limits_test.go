package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
)

// allBounds lists the bounds that a configuration can leave to the policy.
var allBounds = []Bound{BoundRetries, BoundConsecutive, BoundIterations, BoundPaidCalls, BoundCost, BoundBackoff}

var whoseLimitsHoldCases = []struct {
	name      string
	preset    string // "" for ownPolicy
	limits    func(l Limits) Limits
	want      Guards // only the bounds
	initial   time.Duration
	overruled string
}{
	{
		"all are set", "", func(l Limits) Limits { return l },
		Guards{MaxRetries: 3, MaxConsecutiveErrors: 5, IterationBudget: 50, PaidCallBudget: 12, CostBudgetUSD: 2.5},
		time.Second,
		`guards.max_retries = 9 is unused, because the configuration's director.max_retries = 3 applies (remove that key to use the policy's value)
guards.max_consecutive_errors = 8 is unused, because the configuration's recovery.max_consecutive_errors = 5 applies (set that key to 0 or remove it to use the policy's value)
[backoff] is unused, because the configuration's [retry] applies (to use [backoff], remove [retry] there, or set configured_backoff = false here)`,
	},
	{
		"none is set", "", func(l Limits) Limits { l.Assumed = allBounds; return l },
		Guards{MaxRetries: 9, MaxConsecutiveErrors: 8, IterationBudget: 50, PaidCallBudget: 10, CostBudgetUSD: 2.5},
		7 * time.Second, "",
	},
	{
		"one is set", "", func(l Limits) Limits { l.Assumed = allBounds[1:]; return l },
		Guards{MaxRetries: 3, MaxConsecutiveErrors: 8, IterationBudget: 50, PaidCallBudget: 10, CostBudgetUSD: 2.5},
		7 * time.Second,
		`guards.max_retries = 9 is unused, because the configuration's director.max_retries = 3 applies (remove that key to use the policy's value)`,
	},
	{
		"0 leaves it to the policy", "", func(l Limits) Limits {
			l.MaxConsecutiveErrors, l.Assumed = 0,
				allBounds[:1]
			return l
		},
		Guards{MaxRetries: 9, MaxConsecutiveErrors: 8, IterationBudget: 50, PaidCallBudget: 12, CostBudgetUSD: 2.5},
		time.Second,
		`[backoff] is unused, because the configuration's [retry] applies (to use [backoff], remove [retry] there, or set configured_backoff = false here)`,
	},
	{
		"a preset overrides a default", "dispatch",
		func(l Limits) Limits { l.Assumed = allBounds; return l },
		Guards{MaxRetries: recovery.Unlimited, IterationBudget: 50, PaidCallBudget: 10},
		5 * time.Second, "",
	},
	{
		"the configuration overrides a preset without a message", "dispatch",
		func(l Limits) Limits { l.Assumed = allBounds[1:3]; return l },
		Guards{MaxRetries: 3, IterationBudget: 50, PaidCallBudget: 12},
		5 * time.Second, "",
	},
	{
		"a preset's backoff overrides the default backoff", "reviewcat", func(l Limits) Limits {
			l.Backoff.Initial, l.Assumed = time.Minute, allBounds
			return l
		},
		Guards{MaxRetries: 3, IterationBudget: 50, PaidCallBudget: 12},
		time.Second, "",
	},
	{
		"the configured backoff overrides a preset's backoff", "reviewcat", func(l Limits) Limits {
			l.Backoff.Initial, l.Assumed = time.Minute, allBounds[:5]
			return l
		},
		Guards{MaxRetries: 3, IterationBudget: 50, PaidCallBudget: 12},
		time.Minute, "",
	},
}

// TestWhoseLimitsHold checks the precedence: explicit configuration, the operator's document, defaults.
func TestWhoseLimitsHold(t *testing.T) {
	own, err := Parse("own.toml", preset(t, "director"),
		[]byte("[backoff]\nbase_seconds = 7\n[guards]\nmax_retries = 9\nmax_consecutive_errors = 8\n"+
			"cost_budget_usd = 2.5\n"))
	if err != nil {
		t.Fatal(err)
	}
	limits := Limits{
		MaxRetries: 3, MaxConsecutiveErrors: 5, IterationBudget: 50, PaidCallBudget: 12,
		Backoff: recovery.DefaultBackoff,
	}
	for _, tc := range whoseLimitsHoldCases {
		l := tc.limits(limits)
		base := own
		if tc.preset != "" {
			base = preset(t, tc.preset)
		}
		p := base.With(l)
		g := p.Guards()
		g = Guards{
			MaxRetries: g.MaxRetries, MaxConsecutiveErrors: g.MaxConsecutiveErrors,
			IterationBudget: g.IterationBudget, PaidCallBudget: g.PaidCallBudget, CostBudgetUSD: g.CostBudgetUSD,
		}
		if g != tc.want || p.Backoff().Initial != tc.initial {
			t.Errorf("%s: %+v, %s\nwant %+v, %s", tc.name, g, p.Backoff().Initial, tc.want, tc.initial)
		}
		if got := strings.Join(base.Overruled(l), "\n"); got != tc.overruled {
			t.Errorf("%s:\n%s\nwant\n%s", tc.name, got, tc.overruled)
		}
		if slices.Contains(base.explicitKeys, BoundRetries) != (base == own) {
			t.Errorf("%s: With changed its receiver", tc.name)
		}
		if g.MaxRetries < 0 {
			continue
		}
		key := "director.max_retries"
		if g.MaxRetries == 9 {
			key = "guards.max_retries"
		}
		if v := p.Decide(recovery.Finding{Reason: recovery.NetworkTransient},
			recovery.Tally{Redispatches: g.MaxRetries}, DecisionInput{}, ""); v.Veto == "" ||
			!strings.Contains(v.Why, key) {
			t.Errorf("%s: %+v, want %s", tc.name, v, key)
		}
	}
}
