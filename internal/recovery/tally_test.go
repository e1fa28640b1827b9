package recovery_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"retake/internal/recovery"
)

// A delivery clears the counters of rows and signatures, but not the counters of the task, the session and the budgets.
func TestDeliveredKeepsTheBudgets(t *testing.T) {
	kept := []recovery.Count{{Of: recovery.TaskCounter, N: 1}, {Of: recovery.SessionCounter, N: 2}}
	before := recovery.Tally{
		Counts: append([]recovery.Count{{Of: "git_conflict", N: 1}, {
			Of: recovery.CallCounter("stage", "timeout"),
			N:  2,
		}}, kept...),
		Signatures: []recovery.Count{{Of: "sig:a", N: 3}}, Consecutive: 2,
		Redispatches: 2, Granted: 3, Iterations: 3, Refunded: 1, PaidCalls: 4, CacheHits: 5, Tokens: 6, CostUSD: 0.5,
	}
	want := before
	want.Counts, want.Signatures, want.Consecutive = kept, nil, 0
	if got := before.Delivered(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if len(before.Counts) != 4 {
		t.Error("the earlier tally was changed")
	}
}

// TestUsageStaysPlausible checks that no amount from a worker becomes negative or infinite, because the journal could
// not hold an infinite sum.
func TestUsageStaysPlausible(t *testing.T) {
	for _, u := range []recovery.Usage{
		{CostUSD: 1e308, Tokens: math.MaxInt64, PaidCalls: math.MaxInt64, CacheHits: math.MaxInt64},
		{CostUSD: -1e308, Tokens: math.MinInt64, PaidCalls: math.MinInt64, CacheHits: math.MinInt64},
		{CostUSD: recovery.MaxCost},
		{CostUSD: math.Inf(1)},
		{CostUSD: math.NaN()},
	} {
		sum, tally := recovery.Usage{CostUSD: 1e308}, recovery.Tally{CostUSD: 1, Iterations: 3}
		for range 3 {
			sum, tally = sum.Plus(u), tally.Use(u)
		}
		if _, err := json.Marshal([]any{sum, tally, u.Plausible()}); err != nil {
			t.Errorf("%+v: %v", u, err)
		}
		if p := u.Plausible(); p.CostUSD != 0 || p.Tokens < 0 || p.PaidCalls < 0 || p.CacheHits < 0 {
			t.Errorf("%+v: plausible are %+v", u, p)
		}
		if tally.CostUSD != 1 || tally.Refunded > 3 || tally.Refunded < 0 || tally.PaidCalls < 0 {
			t.Errorf("%+v: tally %+v", u, tally)
		}
	}
}
