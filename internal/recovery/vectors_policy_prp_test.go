package recovery_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"retake/internal/recovery"
	"retake/internal/recovery/classify"
	"retake/internal/recovery/policy"
)

// checkDelay checks the pipeline's delays, which are whole milliseconds and at least one.
func checkDelay(t *testing.T, _ *classify.Classifier, v vector) string {
	in, b := fieldsOf(v), preset(t, "prp").Backoff()
	b.Initial, b.Max = milliseconds(in.number("base", 1000)), milliseconds(in.number("max", 30_000))
	b.Factor, b.Spread = in.number("factor", 2), in.number("jitter", 0.1)
	d := b.At(int(in.number("attempt", 0))+1, in.number("rand", 0))
	return differs("delay", float64(max(d.Milliseconds(), 1)), v.Expected["delay_ms"])
}

// errorKinds maps the pipeline's error types and codes to reasons.
var errorKinds = []struct {
	words  string
	reason recovery.Reason
	caller string
}{
	{"session", recovery.CorruptState, ""},
	{"disk full", recovery.DiskFull, ""},
	{"enospc", recovery.DiskFull, ""},
	{"memory", recovery.OOMKilled, ""},
	{"environmenterror", recovery.InvalidConfig, ""},
	{"prd pars", recovery.Validation, "parse_prd"},
	{"parse_prd", recovery.Validation, "parse_prd"},
	{"validationerror", recovery.Validation, ""},
	{"taskerror", recovery.TestsFailed, ""},
	{"llm", recovery.AgentCrash, ""},
	{"agenterror", recovery.AgentCrash, ""},
	{"transient", recovery.NetworkTransient, ""},
	{"mcp", recovery.NetworkTransient, "mcp"},
}

// kindOf parses an error of the pipeline.
func kindOf(words string) (recovery.Reason, string) {
	for _, k := range errorKinds {
		if strings.Contains(strings.ToLower(words), k.words) {
			return k.reason, k.caller
		}
	}
	return recovery.Unknown, ""
}

func fatality(p *policy.Policy, r recovery.Reason, caller string) bool {
	v, _ := story(p, recovery.Finding{Reason: r}, policy.DecisionInput{Caller: caller}, 6)
	return v.Fatal
}

func checkFatality(t *testing.T, _ *classify.Classifier, v vector) string {
	words := fieldsOf(v).text("error")
	r, caller := kindOf(words)
	return differs(fmt.Sprintf("%q is %s; fatal", words, r), fatality(preset(t, "prp"), r, caller), v.Expected["fatal"])
}

func checkFatal(t *testing.T, _ *classify.Classifier, v vector) string {
	in := fieldsOf(v)
	operation, _ := in["context"].(map[string]any)
	r, caller := kindOf(in.text("type") + in.text("errno"))
	if r == recovery.Validation {
		caller = fields(operation).text("operation")
	}
	if strings.HasPrefix(in.text("type"), "BugfixSession") {
		r = recovery.Validation // it checks one step's input, not the session
	}
	p := preset(t, "prp").With(policy.Limits{
		MaxRetries:      recovery.Unlimited,
		ContinueOnError: in.flag("continue_on_error"),
	})
	return differs(string(r)+" fatal", fatality(p, r, caller), v.Expected["fatal"])
}

// checkStep checks the action for an error of a step. The pipeline's names of outcomes are not checked.
func checkStep(t *testing.T, _ *classify.Classifier, v vector) string {
	in, p := fieldsOf(v), preset(t, "prp")
	reasons := []recovery.Reason{recovery.TestsFailed, recovery.NetworkTransient, recovery.AuthError, recovery.Unknown}
	if in.flag("fatal") {
		reasons = []recovery.Reason{recovery.CorruptState, recovery.DiskFull}
	}
	for _, r := range reasons {
		end, _ := story(p, recovery.Finding{Reason: r}, policy.DecisionInput{Caller: in.text("step")}, 6)
		want := recovery.Skip // continue with the existing results
		if outcome, ok := v.Expected["outcome"].(string); ok && strings.HasPrefix(outcome, "abort") ||
			v.Expected["fatal"] == true {
			want = recovery.Abort
		}
		if end.Action != want {
			return fmt.Sprintf("%s in %s: %s, want %s", r, in.text("step"), end.Action, want)
		}
	}
	return ""
}

// outcomes returns the outcomes of the calls in a vector, in order.
func outcomes(in fields) (list []string) {
	if s := in.text("outcomes"); s != "" {
		list = slices.Repeat([]string{s}, 12)
	}
	all, _ := in["outcomes"].([]any)
	for _, o := range all {
		list = append(list, fmt.Sprint(o))
	}
	return list
}

// checkLoop runs calls until they succeed or the policy gives up.
func checkLoop(_ *testing.T, c *classify.Classifier, v vector) string {
	in := fieldsOf(v)
	attempts := int(in.number("max_attempts", 3))
	if in["enabled"] == false {
		attempts = 1
	}
	doc := fmt.Sprintf("base = \"prp\"\n[[row]]\non = \"transient\"\nladder = [{ action = \"retry\", "+
		"attempts = %d }]\n"+
		"backoff = { base_seconds = %g, cap_seconds = 30, jitter = \"additive\", spread = %g }\n",
		attempts, in.number("base", 1000)/1000, in.number("jitter", 0.1))
	p, err := policy.Parse("own", nil, []byte(doc))
	if err != nil {
		return err.Error()
	}
	tried, delays := 0, []any{}
	var tally recovery.Tally
	for _, o := range outcomes(in) {
		if tried++; strings.EqualFold(o, "ok") || strings.HasPrefix(o, "success") {
			break
		}
		f := c.Classify(recovery.Evidence{Message: strings.TrimPrefix(o, "always ")})
		d := p.Decide(f, tally, policy.DecisionInput{}, "s")
		tally = tally.After(f, d)
		if !d.Action.Again() {
			break
		}
		delays = append(delays, float64(d.Delay.Milliseconds()))
	}
	if want, ok := v.Expected["attempts"].(float64); ok && int(want) != tried {
		return fmt.Sprintf("%d attempts, want %g", tried, want)
	}
	if want, ok := v.Expected["retrying_status_updates"].(float64); ok && int(want) != len(delays) {
		return fmt.Sprintf("%d retries, want %g", len(delays), want)
	}
	if want, ok := v.Expected["delays"].([]any); ok && !slices.Equal(want, delays) {
		return fmt.Sprintf("delays %v, want %v", delays, want)
	}
	return ""
}

func checkProfile(t *testing.T, _ *classify.Classifier, v vector) string {
	p, caller := preset(t, "prp"), ""
	if strings.Contains(fieldsOf(v).text("call"), "mcp") {
		caller = "mcp"
	}
	row, _ := p.Row(recovery.NetworkTransient, caller)
	b := p.Backoff()
	if row.Backoff != nil {
		b = recovery.Backoff(*row.Backoff)
	}
	return differs("prp."+row.On, fmt.Sprint(row.Ladder[0].Times+1, b.Initial.Milliseconds(), b.Max.Milliseconds(),
		b.Factor, b.Spread),
		fmt.Sprint(v.Expected["max_attempts"], v.Expected["base_ms"], v.Expected["max_ms"], v.Expected["factor"],
			v.Expected["jitter"]))
}
