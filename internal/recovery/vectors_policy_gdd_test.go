package recovery_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/classify"
	"retake/internal/recovery/policy"
)

// checkJittered checks the design pipeline's backoff. Attempt 0 is retry 1, and an invalid factor means the default.
func checkJittered(t *testing.T, _ *classify.Classifier, v vector) string {
	in := fieldsOf(v)
	opts, _ := in["opts"].(map[string]any)
	o := fields(opts)
	b := preset(t, "gdd").Backoff()
	if f := o.number("factor", b.Factor); f > 0 {
		b.Factor = f
	}
	b.Initial = milliseconds(max(o.number("baseMs", 100), 0))
	b.Max = max(milliseconds(o.number("maxMs", 30_000)), b.Initial)
	b.Spread = min(max(o.number("jitter", b.Spread), 0), 0.999)
	n := int(max(math.Floor(in.number("attempt", 0)), 0)) + 1
	if r, ok := in["rand"].(float64); ok {
		want, _ := v.Expected["delay_ms"].(float64)
		got := float64(b.At(n, r)) / float64(time.Millisecond)
		if math.Abs(got-want) > 1e-3*max(want, 1) {
			return fmt.Sprintf("%g ms, want %g", got, want)
		}
		return ""
	}
	lo, hi := b.Range(n)
	return within(v, "ms", float64(lo)/1e6, float64(hi)/1e6)
}

// within compares a range with the bounds in the vector.
func within(v vector, unit string, lo, hi float64) string {
	for _, k := range []string{"min", "min_ms", "gte"} {
		if want, ok := v.Expected[k].(float64); ok && lo < want-1e-6 {
			return fmt.Sprintf("at least %g %s, want %g", lo, unit, want)
		}
	}
	for _, k := range []string{"max", "max_ms", "lte"} {
		if want, ok := v.Expected[k].(float64); ok && hi > want+1e-6 {
			return fmt.Sprintf("at most %g %s, want %g", hi, unit, want)
		}
	}
	return ""
}

// checkRecoveryRow compares the policy's verdict for a reason with a row of the seed's table.
func checkRecoveryRow(t *testing.T, _ *classify.Classifier, v vector) string {
	p, reason := preset(t, "gdd"), recovery.Reason(fieldsOf(v).text("reason"))
	f := recovery.Finding{Reason: reason, RetryAfter: 90 * time.Second}
	first, _ := story(p, f, policy.DecisionInput{}, 1)
	if d := differs("retryable", first.Action.Again(), v.Expected["retryable"]); d != "" {
		return d
	}
	return speaks(p, f, policy.DecisionInput{}, first, fmt.Sprint(v.Expected["action"]))
}

// speaks compares a verdict with a phrase of the seed. Each term in the phrase that speaks knows must be true of the
// verdict.
func speaks(p *policy.Policy, f recovery.Finding, facts policy.DecisionInput, first recovery.Verdict,
	phrase string,
) string {
	low := strings.ToLower(phrase)
	last, _ := story(p, f, facts, 5)
	for _, w := range []struct {
		words string
		holds bool
	}{
		{"block until resetat", first.Action == recovery.WaitReset && first.DelayMin > f.RetryAfter &&
			first.DelayMax < f.RetryAfter+time.Second && first.Restarts},
		{"blockuntilready", first.Action == recovery.WaitReset && first.DelayMin >= f.RetryAfter},
		{"compress", first.Action == recovery.RetryCompact},
		{"retry exactly once", first.NextIfAgain == recovery.Escalate},
		{"retry once", first.NextIfAgain == recovery.Escalate},
		{"escalate", last.Action == recovery.Escalate},
		{"surface", last.Action == recovery.Escalate || strings.Contains(low, "do not surface") || strings.Contains(low,
			"don't surface")},
		{"reprobe", strings.Contains(strings.ToLower(first.Ask), "probe") || first.Action == recovery.Reprobe},
		{"backoff", first.Action.Again() && first.DelayMin > 0},
		{"max 3", exhaustsAfter(p, f, facts) == 3},
		{"cap 3", exhaustsAfter(p, f, facts) == 3},
		{"network_permanent", last.Reason == recovery.NetworkPermanent && (last.Was == recovery.NetworkTransient ||
			f.Reason == recovery.NetworkPermanent)},
		{"stop", first.Action == recovery.Stop},
		{"short-circuit before spawn", first.Action == recovery.CoolDown && first.Charges == ""},
		{"silent", first.Action == recovery.Skip},
		{"do not surface", first.Action != recovery.Escalate},
		{"do not retry", !first.Action.Again()},
		{"renew", first.Ask != ""},
		{"reauth", first.Ask != ""},
	} {
		if strings.Contains(low, w.words) && !w.holds {
			return fmt.Sprintf("%q does not hold: %+v, at last %+v", w.words, first, last)
		}
	}
	return ""
}

// exhaustsAfter counts the attempts that a policy grants to a failure and its repetitions.
func exhaustsAfter(p *policy.Policy, f recovery.Finding, facts policy.DecisionInput) int {
	var tally recovery.Tally
	for n := range 40 {
		v := p.Decide(f, tally, facts, "s")
		if !v.Action.Again() {
			return n
		}
		tally = tally.After(f, v)
	}
	return 40
}

// checkProtocol decides a status or a reason, after a number of earlier failures.
func checkProtocol(t *testing.T, c *classify.Classifier, v vector) string {
	in, p := fieldsOf(v), preset(t, "gdd")
	reason := recovery.Reason(in.text("reason"))
	if status := int(in.number("status", 0)); status != 0 {
		reason = c.Classify(recovery.Evidence{HTTPStatus: status}).Reason
	}
	if code := in.text("code"); code != "" {
		reason = c.Classify(recovery.Evidence{Message: code}).Reason
	}
	f := recovery.Finding{Reason: reason, RetryAfter: 0}
	if strings.Contains(fmt.Sprint(v.Expected["action"]), "blockUntilReady") {
		f.RetryAfter = time.Minute
	}
	n := max(int(in.number("attempt", 0))+1, int(in.number("occurrence", 1)))
	last, _ := story(p, f, policy.DecisionInput{}, n)
	if last.NextIfAgain == "" {
		return "no verdict"
	}
	if says := fmt.Sprint(v.Expected["action"]); strings.Contains(says, "unrecoverable") {
		return differs(string(reason), last.Action, recovery.Escalate)
	} else if strings.Contains(says, "exhausted") {
		was, _ := p.Row(last.Was, "")
		return differs(string(reason), fmt.Sprint(last.Action, was.On, last.Reason),
			fmt.Sprint(recovery.Escalate, recovery.NetworkTransient, recovery.NetworkPermanent))
	} else if d := speaks(p, f, policy.DecisionInput{}, last, says); d != "" {
		return d
	}
	return ""
}

// checkIntegration compares the first verdict for a caller with the seed's phrase.
func checkIntegration(t *testing.T, _ *classify.Classifier, v vector) string {
	in, p := fieldsOf(v), preset(t, "gdd")
	reasons := []recovery.Reason{recovery.Reason(in.text("reason"))}
	if in.flag("any_error") {
		reasons = nil
		for _, a := range recovery.Reasons {
			reasons = append(reasons, a.Reason)
		}
	}
	for _, r := range reasons {
		f, facts := recovery.Finding{Reason: r, RetryAfter: time.Minute},
			policy.DecisionInput{Caller: in.text("caller")}
		if !slices.ContainsFunc(recovery.Reasons, func(a recovery.About) bool {
			row, _ := p.Row(a.Reason, facts.Caller)
			return row.Caller != ""
		}) {
			return facts.Caller + " is not a caller in the policy"
		}
		first, _ := story(p, f, facts, 1)
		if d := speaks(p, f, facts, first, fmt.Sprint(v.Expected["action"])); d != "" {
			return d
		}
	}
	return ""
}

// checkFixLoop checks the budget of iterations. An attempt uses one iteration, a cache hit refunds one, and the policy
// escalates when the budget is used up.
func checkFixLoop(t *testing.T, _ *classify.Classifier, v vector) string {
	p, f := preset(t, "gdd"), recovery.Finding{Reason: recovery.RateLimited}
	_, tally := story(p, f, policy.DecisionInput{}, 2)
	consumed := func(t recovery.Tally) int { return t.Iterations - t.Refunded }
	switch event, says := fieldsOf(v).text("event"), fmt.Sprint(v.Expected); {
	case strings.Contains(says, "refund"):
		return differs(event, consumed(tally.Use(recovery.Usage{CacheHits: 1})), consumed(tally)-1)
	case strings.Contains(says, "consume"):
		next := tally.After(f, p.Decide(f, tally, policy.DecisionInput{}, "s"))
		return differs(event, consumed(next), consumed(tally)+1)
	}
	last, tally := story(p, f, policy.DecisionInput{}, p.Guards().IterationBudget+1)
	if used := p.Guards().UsedUp(tally); used != policy.GuardIterations {
		return fmt.Sprintf("%+v", tally)
	}
	return differs("none left", fmt.Sprint(last.Action, last.Veto), fmt.Sprint(recovery.Escalate, "iteration_budget"))
}
