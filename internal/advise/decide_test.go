package advise

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"retake/internal/recovery/policy"
)

func decided(t *testing.T, preset, in string) (out string, bad int) {
	t.Helper()
	p, err := policy.Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	bad, err = Decide(t.Context(), Deciding{Policy: p, Vocabulary: preset}, []Source{{Reader: strings.NewReader(in)}},
		&b)
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), bad
}

// failed returns a history of n failures for one reason.
func failed(n int, one string) string {
	return `{"failures":[` + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + `]}`
}

func TestHistoriesAreWalked(t *testing.T) {
	for _, c := range []struct{ preset, in, want string }{
		{
			"director",
			`{"id":"h1","failures":[{"reason":"network_transient","signature":"sig:0","at":"2026-11-21T10:00:00Z","retry_after_seconds":null}],"facts":{"has_alternative":true,"already_compacted":false,"budget_left":3}}`,
			`{"id":"h1","action":"retry","delay_seconds":[0,1],"charges":"infrastructure","why":"network_transient: 1 of 3","row":"director.network_transient","next_if_again":"retry"}`,
		},
		{
			"director", failed(3, `{"reason":"network_transient"}`),
			`{"action":"retry","delay_seconds":[0,4],"charges":"infrastructure","why":"network_transient: 3 of 3","row":"director.network_transient","next_if_again":"escalate"}`,
		},
		{
			"director", failed(4, `{"reason":"network_transient"}`),
			`{"action":"escalate","delay_seconds":null,"charges":null,"why":"network_transient: all 3 retries are used up","row":"director.network_transient","next_if_again":"escalate"}`,
		},
		{
			"director", `{"failures":[{"reason":"rate_limited","retry_after_seconds":90.5}]}`,
			`{"action":"wait_reset","delay_seconds":[90.5,90.5],"charges":null,"why":"rate_limited: wait 1m31s for the reset","row":"director.rate_limited","next_if_again":"wait_reset"}`,
		},
		{
			"director", `{"failures":[{"reason":"rate_limited","retry_after_seconds":1e300}]}`,
			`{"action":"escalate","delay_seconds":null,"charges":null,"why":"rate_limited: the reset is 31 days away, longer than 6h","row":"director.rate_limited","next_if_again":"escalate"}`,
		},
		{
			"director", `{"failures":[{"error_type":"agent_bus_disconnect"}],"facts":{"budget_left":0}}`,
			`{"action":"escalate","delay_seconds":null,"charges":null,"why":"agent_bus_disconnect: the budget is used up","row":"director.bus_disconnect","next_if_again":"escalate","veto":"budget"}`,
		},
	} {
		got, bad := decided(t, c.preset, c.in)
		if got != c.want+"\n" || bad != 0 {
			t.Errorf("%s %s\n  got  %s  want %s", c.preset, c.in, got, c.want)
		}
	}
}

// TestDecidesAsTheReportsFlagsAsk checks that flags make the answer more careful, as in a running director.
func TestDecidesAsTheReportsFlagsAsk(t *testing.T) {
	const escalate, retry = "director.escalate_to_human", "director.should_retry"
	for _, c := range []struct{ in, action, row string }{
		{failed(1, `{"reason":"network_transient","escalate_to_human":true}`), "escalate", escalate},
		{failed(1, `{"reason":"network_transient","should_retry":false}`), "retry", "director.network_transient"},
		{failed(2, `{"reason":"network_transient","should_retry":false}`), "escalate", retry},
		{failed(2, `{"reason":"network_transient","should_retry":true}`), "retry", "director.network_transient"},
		{failed(2, `{"reason":"network_transient","is_transient":false}`), "retry", "director.network_transient"},
		{failed(1, `{"reason":"auth_error","should_retry":true}`), "escalate", "director.auth_error"},
		{failed(1, `{"reason":"auth_error","escalate_to_human":true}`), "escalate", "director.auth_error"},
		{failed(1, `{"reason":"rate_limited","escalate_to_human":true}`), "escalate", escalate},
	} {
		out, bad := decided(t, "director", c.in)
		if got := answers(t, out)[0]; bad != 0 || got["action"] != c.action || got["row"] != c.row {
			t.Errorf("%s: %s", c.in, out)
		}
	}
	if out, bad := decided(t, "director", failed(1, `{"reason":"auth_error","is_transient":"maybe"}`)); bad != 1 {
		t.Errorf("a word instead of a flag: %s", out)
	}
}

// TestWhyBeginsWithTheWordThatWasGiven also checks that the explanation does not add the reason's own meaning.
func TestWhyBeginsWithTheWordThatWasGiven(t *testing.T) {
	for _, c := range []struct{ preset, in, want string }{
		{"cortex", failed(1, `{"class":"FATAL"}`), "FATAL: an unchanged attempt would fail the same way"},
		{"cortex", failed(1, `{"class":"PERMANENT"}`), "PERMANENT: skip, because there is no other model"},
		{"cortex", failed(4, `{"class":"TRANSIENT"}`), "TRANSIENT: all 3 retries are used up"},
		{"prp", failed(1, `{"type":"fatal"}`), "fatal: an unchanged attempt would fail the same way"},
		{"gdd", failed(1, `{"reason":"UNKNOWN"}`), "unknown: the evidence does not explain the failure; the policy " +
			"allows no retry"},
		{"gdd", failed(1, `{"reason":"rate_limited"}`), "rate_limited: the reset time is unknown: wait 1m"},
		{
			"gdd", failed(1, `{"reason":"rate_limited","retry_after_seconds":1e300}`),
			"rate_limited: wait 31 days for the reset",
		},
	} {
		out, _ := decided(t, c.preset, c.in)
		if got := answers(t, out)[0]["why"]; got != c.want {
			t.Errorf("%s %s\n got %v\nwant %s", c.preset, c.in, got, c.want)
		}
	}
}

// TestPresetsActAsTheirTablesSay uses each preset's names for failures.
func TestPresetsActAsTheirTablesSay(t *testing.T) {
	for _, c := range []struct{ preset, in, want string }{
		{"cortex", failed(1, `{"class":"TRANSIENT"}`), "retry"},
		{"cortex", failed(3, `{"class":"transient"}`), "retry"},
		{"cortex", failed(4, `{"class":"TRANSIENT"}`), "escalate"},
		{"cortex", `{"facts":{"has_alternative":true},` + failed(4, `{"class":"TRANSIENT"}`)[1:], "retry_alternative"},
		{"cortex", `{"facts":{"has_alternative":true},` + failed(1, `{"class":"CONTEXT"}`)[1:], "retry_compact"},
		{"cortex", failed(1, `{"class":"FATAL"}`), "abort"},
		{"dispatch", failed(1, `{"class":"transient"}`), "retry"},
		{"dispatch", failed(2, `{"class":"transient","signature":"sig:5f0c5f0c5f0c5f0c"}`), "stop"},
		{"dispatch", failed(1, `{"class":"prompt_too_large"}`), "retry_compact"},
		{"dispatch", failed(1, `{"class":"auth"}`), "stop"},
		{"gdd", failed(1, `{"reason":"context_overflow"}`), "retry_compact"},
		{"gdd", failed(2, `{"reason":"context_overflow"}`), "escalate"},
		{"gdd", failed(3, `{"reason":"network_transient"}`), "retry"},
		{"gdd", failed(1, `{"reason":"unknown"}`), "escalate"},
		{"reviewcat", failed(1, `{"error_type":"tests_failed"}`), "escalate"},
		{"reviewcat", failed(1, `{"error_type":"agent_bus_disconnect"}`), "retry"},
	} {
		out, bad := decided(t, c.preset, c.in)
		var got struct{ Action string }
		_ = json.Unmarshal([]byte(out), &got)
		if got.Action != c.want || bad != 0 {
			t.Errorf("%s %s: want %s, got %s", c.preset, c.in, c.want, out)
		}
	}
}

func TestSuccessBetweenFailuresBreaksTheRow(t *testing.T) {
	p, err := policy.Parse("mine", nil, []byte(`
guards = { max_consecutive_errors = 1 }
[[row]]
on = "storm"
reasons = ["overloaded"]
ladder = [{ action = "retry", times = 9 }]
[[row]]
on = "*"
`))
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		`{"failures":[{"reason":"storm"},{"reason":"overloaded"}]}`:                  `"veto":"consecutive_errors"`,
		`{"failures":[{"reason":"storm","recovered":true},{"reason":"overloaded"}]}`: `"why":"overloaded: 2 of 9"`,
	} {
		var b bytes.Buffer
		if _, err := Decide(t.Context(), Deciding{Policy: p, Vocabulary: "director"},
			[]Source{{Reader: strings.NewReader(in)}}, &b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s: want %s in %s", in, want, b.String())
		}
	}
}

func TestCompactionIsRememberedAndUsageIsCharged(t *testing.T) {
	p, err := policy.Parse("mine", nil, []byte(`
guards = { paid_call_budget = 5 }
[[row]]
on = "*"
ladder = [{ action = "retry_compact", times = 9, when = ["!already_compacted"] }, { action = "replan", times = 9 }]
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{`{"failures":[{"reason":"context_overflow"}]}`, `"action":"retry_compact"`},
		{`{"failures":[{"reason":"context_overflow"}],"facts":{"already_compacted":true}}`, `"action":"replan"`},
		{`{"failures":[{"reason":"context_overflow"},{"reason":"context_overflow"}]}`, `"action":"replan"`},
		{`{"failures":[{"reason":"timeout","usage":{"paid_calls":4}}]}`, `"action":"retry_compact"`},
		{
			`{"failures":[{"reason":"timeout","usage":{"paid_calls":4}},{"reason":"timeout","usage":{"paid_calls":1}}]}`,
			`"veto":"paid_call_budget"`,
		},
	} {
		var b bytes.Buffer
		if _, err := Decide(t.Context(), Deciding{Policy: p, Vocabulary: "director"},
			[]Source{{Reader: strings.NewReader(c[0])}}, &b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), c[1]) {
			t.Errorf("%s: want %s in %s", c[0], c[1], b.String())
		}
	}
}

func TestAskOnlyToExplain(t *testing.T) {
	for _, c := range []struct {
		preset, in, ask string
		explain         bool
	}{
		{"dispatch", failed(1, `{"class":"auth"}`), "", false},
		{"dispatch", failed(1, `{"class":"auth"}`), `"ask":"Re-authenticate the CLI."`, true},
		{
			"director", failed(1, `{"reason":"tests_failed"}`),
			`"ask":"Read the failing test, and decide which behaviour is right."`, true,
		},
		{"director", failed(1, `{"reason":"timeout"}`), "", true}, // it is tried again
	} {
		p, err := policy.Preset(c.preset)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := Decide(t.Context(), Deciding{Policy: p, Vocabulary: c.preset, Explain: c.explain},
			[]Source{{Reader: strings.NewReader(c.in)}}, &b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), c.ask) || strings.Contains(b.String(), `"ask"`) != (c.ask != "") {
			t.Errorf("%s %s: want %q in %s", c.preset, c.in, c.ask, b.String())
		}
	}
}

// badHistories lists unreadable lines and their answers.
var badHistories = []struct{ in, want string }{
	{
		`{"id":"h1"}`,
		`{"id":"h1","error":"line 1: failures: want at least one, because the verdict is about the last one"}`,
	},
	{
		`{"id":"h1","failures":[]}`,
		`{"id":"h1","error":"line 1: failures: want at least one, because the verdict is about the last one"}`,
	},
	{`{"failures":{}}`, `{"error":"line 1: failures: want an array, got an object"}`},
	{`{"failures":["timeout"]}`, `{"error":"line 1: failures[0]: want an object, got \"timeout\""}`},
	{`{"failures":[null]}`, `{"error":"line 1: failures[0]: want an object, got null"}`},
	{
		`{"failures":[{"reason":"timeout"},{}]}`,
		`{"error":"line 1: failures[1].reason: want a reason, or a name from director, got nothing"}`,
	},
	{
		`{"failures":[{"reason":"bad luck"}]}`,
		`{"error":"line 1: failures[0].reason: want a reason, or a name from director, got \"bad luck\""}`,
	},
	{
		`{"failures":[{"code":"bad luck","type":null}]}`,
		`{"error":"line 1: failures[0].code: want a reason, or a name from director, got \"bad luck\""}`,
	},
	{`{"failures":[{"class":1}]}`, `{"error":"line 1: failures[0].class: want a string, got 1"}`},
	{
		`{"failures":[{"reason":"timeout","at":1e300}]}`,
		`{"error":"line 1: failures[0].at: want an RFC 3339 time such as \"2026-11-21T10:00:00Z\", got 1e300"}`,
	},
	{
		`{"failures":[{"reason":"timeout","retry_after_seconds":-1}]}`,
		`{"error":"line 1: failures[0].retry_after_seconds: want a non-negative number of seconds, got -1"}`,
	},
	{
		`{"failures":[{"reason":"timeout","usage":[]}]}`,
		`{"error":"line 1: failures[0].usage: want an object, got an array"}`,
	},
	{
		`{"failures":[{"reason":"timeout","usage":{"paid_calls":-1}}]}`,
		`{"error":"line 1: failures[0].usage.paid_calls: want a non-negative integer, got -1"}`,
	},
	{
		`{"failures":[{"reason":"timeout","usage":{"cost_usd":-0.5}}]}`,
		`{"error":"line 1: failures[0].usage.cost_usd: want a non-negative number, got -0.5"}`,
	},
	{`{"failures":[{"reason":"timeout"}],"facts":true}`, `{"error":"line 1: facts: want an object, got true"}`},
	{
		`{"failures":[{"reason":"timeout"}],"facts":{"has_alternative":"yes"}}`,
		`{"error":"line 1: facts.has_alternative: want true or false, got \"yes\""}`,
	},
	{
		`{"failures":[{"reason":"timeout"}],"facts":{"budget_left":0.5}}`,
		`{"error":"line 1: facts.budget_left: want an integer, got 0.5"}`,
	},
	{
		`{"failures":[{"reason":"timeout"}],"facts":{"caller":{}}}`,
		`{"error":"line 1: facts.caller: want a string, got an object"}`,
	},
	{
		`{"failures":[{"reason":"timeout"}],"facts":{"budgetleft":1}}`,
		`{"error":"line 1: facts.budgetleft: unknown key, did you mean budget_left?"}`,
	},
	{
		`{"failures":[{"reason":"timeout"}],"facts":{"zz":1}}`,
		`{"error":"line 1: facts.zz: unknown key, want one of has_alternative, has_alternative_model, already_compacted, budget_left, caller"}`,
	},
	{
		`{"failures":[{"reason":"timeout","usage":{"paidcalls":null}}]}`,
		`{"error":"line 1: failures[0].usage.paidcalls: unknown key, did you mean paid_calls?"}`,
	},
	{
		`not`,
		`{"error":"line 1: not JSON: want {\"failures\": [{\"reason\": \"…\"}]} on one line: invalid character 'o' in literal null (expecting 'u')"}`,
	},
}

func TestBadHistoriesSayWhatIsWanted(t *testing.T) {
	for _, c := range badHistories {
		got, bad := decided(t, "director", c.in)
		if got != c.want+"\n" || bad != 1 {
			t.Errorf("%s\n  got  %s  want %s", c.in, got, c.want)
		}
	}
}

func FuzzDecideLine(f *testing.F) {
	for _, s := range []string{
		failed(2, `{"reason":"timeout","retry_after_seconds":1e300}`),
		`{"failures":[{"usage":{"tokens":9e18}}]}`, `{"failures":[]`,
	} {
		f.Add([]byte(s))
	}
	p, err := policy.Preset("director")
	if err != nil {
		f.Fatal(err)
	}
	o := Deciding{Policy: p, Vocabulary: "director", words: ownWords(p)}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(bytes.TrimSpace(data)) == 0 || bytes.ContainsRune(data, '\n') {
			return
		}
		var out bytes.Buffer
		if _, err := stream(t.Context(), []Source{{Reader: bytes.NewReader(data)}}, &out, o.answer); err != nil {
			t.Fatal(err)
		}
		var a map[string]any
		if err := json.Unmarshal(out.Bytes(), &a); err != nil {
			t.Fatalf("%v in %q", err, out.String())
		}
		if a["action"] == nil && a["error"] == nil {
			t.Fatalf("the answer lacks an action and an error: %q", out.String())
		}
	})
}
