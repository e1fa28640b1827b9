package recovery

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// checkJittered: the design pipeline's backoff. Attempt 0 is retry 1; a factor that is none is the default's.
func checkJittered(t *testing.T, _ *Classifier, v vector) string {
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

// within compares a range with whatever bounds the vector names.
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

// checkMeter plays operations on a meter. No state, or one of iterations that is damaged, starts with the default.
func checkMeter(_ *testing.T, _ *Classifier, v vector) string {
	var in struct {
		State json.RawMessage `json:"state_file"`
		Ops   [][]any
	}
	_ = json.Unmarshal(v.Input, &in)
	m, _ := NewMeter(DefaultIterations)
	var stored Meter
	if json.Unmarshal(in.State, &stored) == nil && stored != (Meter{}) && stored.Check() == nil {
		m = stored
	}
	results, _ := v.Expected["results"].([]any)
	for i, op := range in.Ops {
		amount := math.NaN()
		switch a := op[len(op)-1].(type) {
		case float64:
			amount = a
		case string:
			if len(op) == 1 {
				amount = 1
			}
		}
		next, err := m, error(nil)
		switch op[0] {
		case "reset":
			next, err = NewMeter(amount)
		case "consume":
			next, err = m.Consume(amount)
		case "refund":
			next, err = m.Refund(amount)
		case "remaining":
		default:
			return fmt.Sprintf("operation %v", op)
		}
		if err == nil {
			m = next
		}
		if i >= len(results) {
			continue
		}
		want, isObject := results[i].(map[string]any)
		if !isObject {
			if d := differs(fmt.Sprintf("operation %d", i), any(m.Remaining), results[i]); d != "" {
				return d
			}
			continue
		}
		if says, refused := want["error"].(string); refused || err != nil {
			if err == nil || !refused || !sameRefusal(err, says) {
				return fmt.Sprintf("operation %d: %v, want %v", i, err, want)
			}
			continue
		}
		if d := sameMeter(m, want); d != "" {
			return fmt.Sprintf("operation %d: %s", i, d)
		}
	}
	final, _ := v.Expected["final"].(map[string]any)
	return sameMeter(m, final)
}

func sameRefusal(err error, says string) bool {
	for _, r := range []struct {
		words string
		err   error
	}{{"Exhausted", ErrExhausted}, {"amount", ErrAmount}, {"budget must", ErrBudget}} {
		if strings.Contains(says, r.words) {
			return strings.Contains(err.Error(), r.err.Error())
		}
	}
	return false
}

func sameMeter(m Meter, want fields) string {
	for _, k := range []struct {
		key string
		is  float64
	}{{"budget", m.Budget}, {"remaining", m.Remaining}, {"consumed", m.Consumed}, {"refunded", m.Refunded}} {
		if w, ok := want[k.key].(float64); ok && w != k.is {
			return fmt.Sprintf("%s is %g, want %g", k.key, k.is, w)
		}
	}
	return ""
}

// checkRecoveryRow reads what the table says of a reason, in its words.
func checkRecoveryRow(t *testing.T, _ *Classifier, v vector) string {
	p, reason := preset(t, "gdd"), Reason(fieldsOf(v).text("reason"))
	f := Finding{Reason: reason, RetryAfter: 90 * time.Second}
	first, _ := story(p, f, Facts{}, 1)
	if d := differs("retryable", first.Action.Again(), v.Expected["retryable"]); d != "" {
		return d
	}
	return speaks(p, f, Facts{}, first, fmt.Sprint(v.Expected["action"]))
}

// speaks compares a verdict with a seed's phrase: each word that it knows must hold.
func speaks(p *Policy, f Finding, facts Facts, first Verdict, phrase string) string {
	low := strings.ToLower(phrase)
	last, _ := story(p, f, facts, 5)
	for _, w := range []struct {
		words string
		holds bool
	}{
		{"block until resetat", first.Action == WaitReset && first.DelayMin > f.RetryAfter && first.DelayMax < f.RetryAfter+time.Second && first.Restarts},
		{"blockuntilready", first.Action == WaitReset && first.DelayMin >= f.RetryAfter},
		{"compress", first.Action == RetryCompact},
		{"retry exactly once", first.NextIfAgain == Escalate},
		{"retry once", first.NextIfAgain == Escalate},
		{"escalate", last.Action == Escalate},
		{"surface", last.Action == Escalate || strings.Contains(low, "do not surface") || strings.Contains(low, "don't surface")},
		{"reprobe", strings.Contains(strings.ToLower(first.Ask), "probe") || first.Action == Reprobe},
		{"backoff", first.Action.Again() && first.DelayMin > 0},
		{"max 3", exhaustsAfter(p, f, facts) == 3},
		{"cap 3", exhaustsAfter(p, f, facts) == 3},
		{"network_permanent", last.Reason == NetworkPermanent && (last.Was == NetworkTransient || f.Reason == NetworkPermanent)},
		{"stop", first.Action == Stop},
		{"short-circuit before spawn", first.Action == CoolDown && first.Charges == ""},
		{"silent", first.Action == Skip},
		{"do not surface", first.Action != Escalate},
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

// exhaustsAfter counts the attempts that a first failure and its repetitions are granted.
func exhaustsAfter(p *Policy, f Finding, facts Facts) int {
	var tally Tally
	for n := range 40 {
		v := p.Decide(f, tally, facts, "s")
		if !v.Action.Again() {
			return n
		}
		tally = tally.After(f, v)
	}
	return 40
}

// checkProtocol gives a status or a reason, after so many earlier ones.
func checkProtocol(t *testing.T, c *Classifier, v vector) string {
	in, p := fieldsOf(v), preset(t, "gdd")
	reason := Reason(in.text("reason"))
	if status := int(in.number("status", 0)); status != 0 {
		reason = c.Classify(Evidence{HTTPStatus: status}).Reason
	}
	if code := in.text("code"); code != "" {
		reason = c.Classify(Evidence{Message: code}).Reason
	}
	f := Finding{Reason: reason, RetryAfter: 0}
	if strings.Contains(fmt.Sprint(v.Expected["action"]), "blockUntilReady") {
		f.RetryAfter = time.Minute
	}
	n := max(int(in.number("attempt", 0))+1, int(in.number("occurrence", 1)))
	last, _ := story(p, f, Facts{}, n)
	if last.NextIfAgain == "" {
		return "no verdict"
	}
	if says := fmt.Sprint(v.Expected["action"]); strings.Contains(says, "unrecoverable") {
		return differs(string(reason), last.Action, Escalate)
	} else if strings.Contains(says, "exhausted") {
		was, _ := p.Row(last.Was, "")
		return differs(string(reason), fmt.Sprint(last.Action, was.On, last.Reason), fmt.Sprint(Escalate, NetworkTransient, NetworkPermanent))
	} else if d := speaks(p, f, Facts{}, last, says); d != "" {
		return d
	}
	return ""
}

// checkIntegration asks for a caller.
func checkIntegration(t *testing.T, _ *Classifier, v vector) string {
	in, p := fieldsOf(v), preset(t, "gdd")
	reasons := []Reason{Reason(in.text("reason"))}
	if in.flag("any_error") {
		reasons = nil
		for _, a := range Reasons {
			reasons = append(reasons, a.Reason)
		}
	}
	for _, r := range reasons {
		f, facts := Finding{Reason: r, RetryAfter: time.Minute}, Facts{Caller: in.text("caller")}
		if p.caller(facts.Caller) == 0 {
			return facts.Caller + " is no caller"
		}
		first, _ := story(p, f, facts, 1)
		if d := speaks(p, f, facts, first, fmt.Sprint(v.Expected["action"])); d != "" {
			return d
		}
	}
	return ""
}

// checkFixLoop: an attempt takes one iteration, a cache hit gives one back, none left ends it.
func checkFixLoop(t *testing.T, _ *Classifier, v vector) string {
	p, f := preset(t, "gdd"), Finding{Reason: RateLimited}
	_, tally := story(p, f, Facts{}, 2)
	before, _ := p.Iterations(tally)
	switch event, says := fieldsOf(v).text("event"), fmt.Sprint(v.Expected); {
	case strings.Contains(says, "refund"):
		after, _ := p.Iterations(tally.Use(Usage{CacheHits: 1}))
		return differs(event, after.Remaining, before.Remaining+1)
	case strings.Contains(says, "consume"):
		next, _ := p.Iterations(tally.After(f, p.Decide(f, tally, Facts{}, "s")))
		return differs(event, next.Remaining, before.Remaining-1)
	}
	last, tally := story(p, f, Facts{}, DefaultIterations+1)
	if m, _ := p.Iterations(tally); m.Remaining != 0 {
		return fmt.Sprintf("%+v", m)
	}
	return differs("none left", fmt.Sprint(last.Action, last.Veto), fmt.Sprint(Escalate, "iteration_budget"))
}
