package policy

import (
	"slices"
	"testing"
)

func TestPresetsHaveNoFaults(t *testing.T) {
	for _, name := range Presets {
		for _, f := range preset(t, name).Check() {
			t.Errorf("%s", f)
		}
		for _, r := range preset(t, name).Table() {
			if r.Why == "" {
				t.Errorf("%s has no why", r.id)
			}
		}
	}
}

var checkExplainsCases = []struct {
	name string
	doc  string
	want []string
}{
	{"an unlimited step", `base = "director"
[[row]]
on = "unknown"
ladder = [{ action = "retry", times = "unlimited" }, { action = "replan" }, { action = "skip", when = ["has_alternative"] }]`, []string{
		"own.unknown: unreachable: step 2 (replan) comes after step 1 (retry), which never ends",
		"own.unknown: unreachable: step 3 (skip) comes after step 1 (retry), which never ends",
	}},
	{"an unlimited step under a condition", `base = "director"
[[row]]
on = "unknown"
ladder = [{ action = "retry", times = "unlimited", when = ["has_alternative"] }, { action = "replan" }]`, nil},
	{"a step after the end", `base = "director"
[[row]]
on = "unknown"
ladder = [{ action = "stop" }, { action = "retry", times = 0 }]`, []string{
		"own.unknown: unreachable: step 2 (retry) runs 0 times",
		"own.unknown: unreachable: step 2 (retry) comes after step 1 (stop), which ends the task",
	}},
	{"contradictory conditions", `base = "director"
[[row]]
on = "unknown"
ladder = [{ action = "retry", when = ["has_alternative", "!has_alternative"] }]`, []string{
		"own.unknown: contradicts: step 1 (retry) wants has_alternative and !has_alternative",
	}},
	{"a circle", `base = "director"
[[row]]
on = "network_permanent"
becomes = "network_transient"
[[row]]
on = "network_transient"
becomes = "network_permanent"`, []string{
		"own.network_transient: endless: the reasons form a cycle: own.network_transient -> " +
			"own.network_permanent -> own.network_transient; then escalate",
		"own.network_permanent: endless: the reasons form a cycle: own.network_permanent -> " +
			"own.network_transient -> own.network_permanent; then escalate",
	}},
	{"a row for itself", `base = "director"
[[row]]
on = "unknown"
becomes = "unknown"`, []string{"own.unknown: endless: the reasons form a cycle: own.unknown -> own.unknown; " +
		"then escalate"}},
	{"free attempts without a bound", `base = "director"
[guards]
iteration_budget = 0
[[row]]
on = "rate_limited"
ladder = [{ action = "wait_reset", times = "unlimited" }]`, []string{
		"own.rate_limited: endless: wait_reset is unlimited without a guard; the engine stops it after " +
			"100 attempts",
	}},
	{"a word that others decide", `base = "director"
[[row]]
on = "mine"
reasons = ["timeout", "unknown"]
[[row]]
on = "timeout"
[[row]]
on = "unknown"`, []string{
		"own.mine: unreachable: all its reasons are handled by own.timeout, own.unknown",
	}},
	{"an operator's word removes its reasons from the base's rows", `base = "director"
[[row]]
on = "mine"
reasons = ["timeout", "unknown"]
[[row]]
on = "*"`, []string{
		"own.*: unreachable: all its reasons are handled by director.rate_limited, director.quota_exhausted, " +
			"director.overloaded, 28 others",
	}},
	{"settings that nothing reads", `base = "director"
[[row]]
on = "auth_error"
cools = "model"
restarts_backoff = true
fatal = true
wait = { default_seconds = 3, longest_seconds = 3, then_backoff = true }
backoff = { base_seconds = 1 }`, []string{
		"own.auth_error: no_effect: cools: no step waits for a limit",
		"own.auth_error: no_effect: restarts_backoff: no step waits for a limit",
		"own.auth_error: no_effect: wait.default_seconds: no step waits for a limit",
		"own.auth_error: no_effect: wait.then_backoff: no step waits for a limit",
		"own.auth_error: no_effect: wait.longest_seconds: no step goes to the same provider again",
		"own.auth_error: no_effect: backoff: no step leads to another attempt",
		"own.auth_error: contradicts: fatal ends the whole run, but \"then\" is escalate",
	}},
}

func TestCheckExplains(t *testing.T) {
	for _, tc := range checkExplainsCases {
		t.Run(tc.name, func(t *testing.T) {
			p, err := Parse("own", nil, []byte(tc.doc))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range p.Check() {
				got = append(got, f.String())
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%q\nwant %q", got, tc.want)
			}
		})
	}
}
