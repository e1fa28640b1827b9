package policy

import (
	"math"
	"strings"
	"time"

	"pgregory.net/rapid"

	"retake/internal/recovery"
)

func anyReason(t *rapid.T) recovery.Reason {
	if rapid.IntRange(0, 20).Draw(t, "unlisted") == 0 {
		return "no such reason"
	}
	return rapid.SampledFrom(recovery.Reasons).Draw(t, "reason").Reason
}

var someCallers = []string{"", "probe", "step"}

func anyAction(t *rapid.T) recovery.Action {
	if rapid.IntRange(0, 30).Draw(t, "odd") == 0 {
		return "odd"
	}
	return rapid.SampledFrom(recovery.Actions).Draw(t, "action").Action
}

func anyRow(t *rapid.T, on string) Row {
	r := Row{
		On: on, Caller: rapid.SampledFrom(someCallers).Draw(t, "caller"),
		Fatal:    rapid.Bool().Draw(t, "fatal"),
		Count:    rapid.SampledFrom([]Unit{ByRow, ByCall, ByTask, BySignature, BySession, ""}).Draw(t, "count"),
		Restarts: rapid.Bool().Draw(t, "restarts"),
		Cools:    rapid.SampledFrom([]string{"", "model"}).Draw(t, "cools"),
		Then: rapid.SampledFrom([]recovery.Action{
			recovery.Escalate, recovery.Skip, recovery.Stop, recovery.Abort,
			recovery.Reclaim, "",
		}).Draw(t, "then"),
		Wait: Wait{
			Default: time.Duration(rapid.Int64().Draw(t, "default")), Cap: time.Duration(rapid.Int64().Draw(t, "cap")),
			Longest: time.Duration(rapid.Int64().Draw(t, "longest")), Backoff: rapid.Bool().Draw(t, "then backoff"),
		},
	}
	if rapid.Bool().Draw(t, "own backoff") {
		b := anyBackoff(t)
		r.Backoff = (*Backoff)(&b)
	}
	if rapid.Bool().Draw(t, "becomes another") {
		r.Becomes = anyReason(t)
	}
	for range rapid.IntRange(0, 4).Draw(t, "rungs") {
		g := Rung{Action: anyAction(t), Times: rapid.IntRange(-2, 30).Draw(t, "times")}
		for range rapid.IntRange(0, 2).Draw(t, "conditions") {
			g.When = append(g.When, Condition(rapid.SampledFrom(append(conditionNames, "odd", "")).Draw(t, "when")))
		}
		r.Ladder = append(r.Ladder, g)
	}
	return r
}

// anyPolicy also draws policies that no document can express.
func anyPolicy(t *rapid.T) *Policy {
	var rows []Row
	for _, a := range recovery.Reasons {
		if rapid.IntRange(0, 2).Draw(t, "row") == 0 {
			rows = append(rows, anyRow(t, string(a.Reason)))
		}
	}
	if rapid.Bool().Draw(t, "others") {
		rows = append(rows, anyRow(t, "*"))
	}
	p := newPolicy("any", rows)
	p.backoff, p.usesConfigBackoff, p.continueOnError = anyBackoff(t), rapid.Bool().Draw(t, "ours"),
		rapid.Bool().Draw(t, "goes on")
	bound := func(name string) int { return rapid.SampledFrom([]int{recovery.Unlimited, 0, 1, 3, 40}).Draw(t, name) }
	end := func(name string) recovery.Action {
		return rapid.SampledFrom([]recovery.Action{
			"", recovery.Escalate, recovery.Skip, recovery.Stop, recovery.Abort,
			recovery.Reclaim,
		}).Draw(t, name)
	}
	p.guards = Guards{
		MaxRetries: bound("retries"), MaxConsecutiveErrors: bound("consecutive"), IterationBudget: bound("iterations"),
		PaidCallBudget: bound("paid"), CostBudgetUSD: float64(bound("cost")),
		WaitsAreErrors: rapid.Bool().Draw(t, "waits"),
		OnRetries:      end("on retries"), OnConsecutive: end("on consecutive"), OnIterations: end("on iterations"),
		OnPaidCalls: end("on paid"), OnCost: end("on cost"),
	}
	return p
}

func anyFinding(t *rapid.T) recovery.Finding {
	return recovery.Finding{
		Reason: anyReason(t),
		RetryAfter: time.Duration(rapid.OneOf(rapid.Int64(), rapid.Int64Range(-1, int64(8*time.Hour))).Draw(t,
			"retry_after")),
		Signature: rapid.SampledFrom([]string{"", "sig:1", "sig:2", "odd", "\xff", strings.Repeat("long", 50)}).Draw(t,
			"signature"),
	}
}

func anyFacts(t *rapid.T) DecisionInput {
	f := DecisionInput{
		HasAlternative: rapid.Bool().Draw(t, "alternative"), AlreadyCompacted: rapid.Bool().Draw(t, "compacted"),
		Caller: rapid.SampledFrom(append(someCallers, "unknown", "\xfe", strings.Repeat("far", 50))).Draw(t, "caller"),
	}
	if rapid.IntRange(0, 3).Draw(t, "knows budget") == 0 {
		n := rapid.IntRange(-2, 5).Draw(t, "budget left")
		f.BudgetLeft = &n
	}
	return f
}

func anyUsage(t *rapid.T) recovery.Usage {
	return recovery.Usage{
		Tokens: rapid.Int64().Draw(t, "tokens"), PaidCalls: rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 3)).Draw(t,
			"paid"),
		CacheHits: rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 3)).Draw(t, "hits"),
		CostUSD:   rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 2), rapid.Just(math.NaN())).Draw(t, "cost"),
	}
}
