package recovery

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// classReason is a reason of each of the recovery engine's classes.
var classReason = map[string]Reason{"transient": NetworkTransient, "context": ContextOverflow, "permanent": Validation, "fatal": AuthError}

// checkMatrix asks for the strategy of a class at a retry_count; the abort after errors in a row is another question.
func checkMatrix(t *testing.T, _ *Classifier, v vector) string {
	in, p := fieldsOf(v), preset(t, "cortex").With(Limits{MaxRetries: Unlimited, MaxConsecutiveErrors: Unlimited})
	facts := Facts{HasAlternative: in.flag("has_alternative_model")}
	got, _ := story(p, Finding{Reason: classReason[in.text("class")]}, facts, int(in.number("retry_count", 0))+1)
	action := string(got.Action)
	if got.Action == RetryAlternative || got.Action == RetryCompact {
		action = "retry_different"
	}
	want := v.Expected["action"]
	if want == "UNSPECIFIED" {
		want = v.Expected["proposal"]
	}
	if adjusted := v.Expected["adjusted"]; adjusted != nil && got.Action != RetryCompact {
		return fmt.Sprintf("%s, want %v", got.Action, adjusted)
	}
	return differs(got.Why, action, want)
}

func checkStrategy(t *testing.T, _ *Classifier, v vector) string {
	p := preset(t, "cortex")
	row, _ := p.Row(NetworkTransient, "")
	v1, _ := story(p, Finding{Reason: NetworkTransient}, Facts{}, 1)
	if v1.Why == "" {
		return "no reason"
	}
	b := p.Backoff()
	return differs("defaults", fmt.Sprint(row.Ladder[0].Times, b.Initial.Milliseconds(), b.Factor),
		fmt.Sprint(v.Expected["max_retries"], v.Expected["backoff_base_ms"], v.Expected["backoff_multiplier"]))
}

// checkBackoffRange: retry_count 0 is retry 1.
func checkBackoffRange(t *testing.T, _ *Classifier, v vector) string {
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

func checkShouldAbort(t *testing.T, _ *Classifier, v vector) string {
	in := fieldsOf(v)
	p := preset(t, "cortex").With(Limits{MaxRetries: Unlimited, MaxConsecutiveErrors: int(in.number("max_consecutive_errors", 5))})
	f, facts := Finding{Reason: NetworkTransient}, Facts{HasAlternative: true}
	var tally Tally
	var last Verdict
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
	return differs("abort", last.Action == Abort, v.Expected["abort"])
}

func checkReset(t *testing.T, _ *Classifier, _ vector) string {
	_, tally := story(preset(t, "cortex"), Finding{Reason: Validation, Signature: "sig:1"}, Facts{}, 4)
	if tally.Consecutive != 4 {
		return fmt.Sprintf("%+v", tally)
	}
	tally = tally.Answered()
	return differs("after a reset", len(tally.Counts)+len(tally.Signatures)+tally.Consecutive+tally.Granted, 0)
}

// checkBreaker: both of the sister modules' breakers are the same machine with other rules.
func checkBreaker(_ *testing.T, _ *Classifier, v vector) string {
	in := fieldsOf(v)
	r := BreakerRules{Threshold: 3, EachFailure: true, Consecutive: true, OpenFor: 30 * time.Second, Canaries: 1}
	if v.Kind == "health_breaker" {
		r.Threshold, r.Canaries = 5, 3
	}
	r.Threshold = int(in.number("threshold", float64(r.Threshold)))
	r.OpenFor = time.Duration(in.number("recovery_timeout", 30) * float64(time.Second))
	now, b := noon, Breaker{}
	n := int(in.number("failures", in.number("consecutive_failures", float64(r.Threshold))))
	for range n {
		b = b.Failed(r, now, "a")
	}
	if s, ok := in["open_for_s"].(float64); ok {
		now = now.Add(time.Duration(s * float64(time.Second)))
	}
	for _, k := range []struct {
		key, word string
		ok        bool
	}{{"half_open_successes", "success", true}, {"half_open_failures", "failure", false}} {
		n := int(in.number(k.key, 0))
		for _, other := range []string{"half_open", "half_open_probe", "half_open_result", "probe", "probe_result"} {
			if strings.HasPrefix(in.text(other), k.word[:4]) {
				n = 1
			}
		}
		for range n {
			if b.Until.After(now) {
				now = b.Until
			}
			if b = b.Dispatched(r, now, "a"); k.ok {
				b = b.Succeeded(r, now, "a")
			} else {
				b = b.Failed(r, now, "a")
			}
		}
	}
	state := b.State(r, now)
	if state == BreakerRamp {
		state = BreakerClosed // the modules have no ramp
	}
	if want, ok := v.Expected["state"].(string); ok && want != string(state) {
		return fmt.Sprintf("%s, want %s", state, want)
	}
	allowed, until := b.Allow(r, now)
	if want, ok := v.Expected["available"].(bool); ok && want != allowed {
		return fmt.Sprintf("available %v", allowed)
	}
	if want, ok := v.Expected["wait_s"].(float64); ok && until.Sub(now).Seconds() != want {
		return fmt.Sprintf("waits %s", until.Sub(now))
	}
	if want, ok := v.Expected["probes"].(float64); ok && b.Limit(r, now) != int(want) {
		return fmt.Sprintf("%d probes", b.Limit(r, now))
	}
	return ""
}
