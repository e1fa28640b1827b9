package recovery_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
	"retake/internal/recovery/classify"
	"retake/internal/recovery/policy"
)

// classReason maps each class of the recovery engine to a reason.
var classReason = map[string]recovery.Reason{
	"transient": recovery.NetworkTransient,
	"context":   recovery.ContextOverflow, "permanent": recovery.Validation, "fatal": recovery.AuthError,
}

// checkMatrix checks the strategy for a class and a retry_count. The abort after consecutive errors is not a part of
// it.
func checkMatrix(t *testing.T, _ *classify.Classifier, v vector) string {
	in, p := fieldsOf(v), preset(t, "cortex").With(policy.Limits{
		MaxRetries:           recovery.Unlimited,
		MaxConsecutiveErrors: recovery.Unlimited,
	})
	facts := policy.DecisionInput{HasAlternative: in.flag("has_alternative_model")}
	got, _ := story(p, recovery.Finding{Reason: classReason[in.text("class")]}, facts, int(in.number("retry_count", 0))+
		1)
	action := string(got.Action)
	if got.Action == recovery.RetryAlternative || got.Action == recovery.RetryCompact {
		action = "retry_different"
	}
	want := v.Expected["action"]
	if want == "UNSPECIFIED" {
		want = v.Expected["proposal"]
	}
	if adjusted := v.Expected["adjusted"]; adjusted != nil && got.Action != recovery.RetryCompact {
		return fmt.Sprintf("%s, want %v", got.Action, adjusted)
	}
	return differs(got.Why, action, want)
}

func checkStrategy(t *testing.T, _ *classify.Classifier, v vector) string {
	p := preset(t, "cortex")
	row, _ := p.Row(recovery.NetworkTransient, "")
	v1, _ := story(p, recovery.Finding{Reason: recovery.NetworkTransient}, policy.DecisionInput{}, 1)
	if v1.Why == "" {
		return "no reason"
	}
	b := p.Backoff()
	return differs("defaults", fmt.Sprint(row.Ladder[0].Times, b.Initial.Milliseconds(), b.Factor),
		fmt.Sprint(v.Expected["max_retries"], v.Expected["backoff_base_ms"], v.Expected["backoff_multiplier"]))
}

// checkBackoffRange checks the range of a backoff. retry_count 0 is retry 1.
func checkBackoffRange(t *testing.T, _ *classify.Classifier, v vector) string {
	in, b, unit := fieldsOf(v), preset(t, "cortex").Backoff(), time.Millisecond
	n := int(in.number("retry_count", 0))
	if v.Kind == "llm_backoff_s" {
		n, unit = int(in.number("attempt", 0)), time.Second
	}
	b.Initial = time.Duration(in.number("base_ms", in.number("base_delay", 1000)) * float64(unit))
	b.Factor = in.number("multiplier", 2)
	lo, hi := b.Range(n + 1)
	if d := within(v, "", float64(lo)/float64(unit), float64(hi)/float64(unit)); d != "" {
		return d
	}
	if lo == hi || float64(lo)/float64(unit) != v.Expected["min"] {
		return fmt.Sprintf("from %s to %s", lo, hi)
	}
	return ""
}

func checkShouldAbort(t *testing.T, _ *classify.Classifier, v vector) string {
	in := fieldsOf(v)
	p := preset(t, "cortex").With(policy.Limits{
		MaxRetries:           recovery.Unlimited,
		MaxConsecutiveErrors: int(in.number("max_consecutive_errors", 5)),
	})
	f, facts := recovery.Finding{Reason: recovery.NetworkTransient}, policy.DecisionInput{HasAlternative: true}
	var tally recovery.Tally
	var last recovery.Verdict
	fail := func(n int) {
		for range n {
			last = p.Decide(f, tally, facts, "s")
			tally = tally.After(f, last)
		}
	}
	fail(int(in.number("consecutive_errors", 0)))
	steps, _ := in["sequence"].([]any)
	for _, s := range steps {
		var n int
		switch word := fmt.Sprint(s); {
		case strings.HasPrefix(word, "recover"):
			tally = tally.Succeeded()
		case word == "error":
			fail(1)
		default:
			if _, err := fmt.Sscanf(word, "error x%d", &n); err != nil {
				return word
			}
			fail(n)
		}
	}
	if want, ok := v.Expected["consecutive"].(float64); ok && int(want) != tally.Consecutive {
		return fmt.Sprintf("%d in a row, want %g", tally.Consecutive, want)
	}
	return differs("abort", last.Action == recovery.Abort, v.Expected["abort"])
}

func checkReset(t *testing.T, _ *classify.Classifier, _ vector) string {
	_, tally := story(preset(t, "cortex"), recovery.Finding{Reason: recovery.Validation, Signature: "sig:1"},
		policy.DecisionInput{}, 4)
	if tally.Consecutive != 4 {
		return fmt.Sprintf("%+v", tally)
	}
	tally = tally.Answered()
	return differs("after a reset", len(tally.Counts)+len(tally.Signatures)+tally.Consecutive+tally.Granted, 0)
}
