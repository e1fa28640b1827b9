package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
)

// ladderOf decides a reason until the ladder ends, and formats the result: "retry×3, escalate".
func ladderOf(p *Policy, r recovery.Reason, facts DecisionInput) string {
	f := recovery.Finding{Reason: r, Signature: "sig:0"}
	var tally recovery.Tally
	var steps []string
	last, n := recovery.Action(""), 0
	put := func() {
		switch {
		case n == 1:
			steps = append(steps, string(last))
		case n > 1:
			steps = append(steps, fmt.Sprintf("%s×%d", last, n))
		}
	}
	for range engineCap + 1 {
		v := p.Decide(f, tally, facts, "s")
		if v.Action != last {
			put()
			last, n = v.Action, 0
		}
		n++
		tally = tally.After(f, v)
		if !v.Action.Again() && v.Action != recovery.Skip || n > 20 {
			break
		}
	}
	put()
	return strings.Join(steps, ", ")
}

// TestPresetRows checks every reason in the preset director: its ladder without and with an alternative model, and the
// meter that the first attempt charges.
func TestPresetRows(t *testing.T) {
	director := map[recovery.Reason][3]string{
		recovery.RateLimited:      {"wait_reset×20, escalate", "", ""},
		recovery.QuotaExhausted:   {"escalate", "retry_alternative, escalate", ""},
		recovery.Overloaded:       {"retry×3, escalate", "retry×2, retry_alternative, escalate", "infrastructure"},
		recovery.NetworkTransient: {"retry×3, escalate", "", "infrastructure"},
		recovery.ContextOverflow:  {"retry_compact, escalate", "retry_compact, retry_alternative, escalate", "agent"},
		recovery.DockerDaemon:     {"retry×3, escalate", "", "infrastructure"},
		recovery.ImagePullFailed:  {"retry×2, escalate", "", "infrastructure"},
		recovery.NoCapacity:       {"retry×3, escalate", "", "infrastructure"},
		recovery.OOMKilled:        {"restart_worker, escalate", "", "infrastructure"},
		recovery.DiskFull:         {"retry, escalate", "", "infrastructure"},
		recovery.Timeout:          {"restart_worker, escalate", "", "infrastructure"},
		recovery.WorkerLost:       {"restart_worker×2, escalate", "", "infrastructure"},
		recovery.BusDisconnect:    {"retry×3, escalate", "", "infrastructure"},
		recovery.WorkLost:         {"restart_worker×2, escalate", "", "infrastructure"},
		recovery.AgentCrash:       {"retry, escalate", "retry, retry_alternative, escalate", "agent"},
		recovery.NoProgress:       {"replan, escalate", "", "agent"},
		recovery.Unknown:          {"retry, escalate", "", "agent"},
	}
	p := preset(t, "director")
	for _, about := range recovery.Reasons {
		want, ok := director[about.Reason]
		if !ok {
			want = [3]string{"escalate", "", ""}
		}
		if want[1] == "" {
			want[1] = want[0]
		}
		charges := string(p.Decide(recovery.Finding{Reason: about.Reason}, recovery.Tally{}, DecisionInput{},
			"s").Charges)
		got := [3]string{
			ladderOf(p, about.Reason, DecisionInput{}),
			ladderOf(p, about.Reason, DecisionInput{HasAlternative: true}), charges,
		}
		if got != want {
			t.Errorf("%s: %q, want %q", about.Reason, got, want)
		}
	}
}

// TestDirectorsCallers checks that the ladder of a reason depends on the caller.
func TestDirectorsCallers(t *testing.T) {
	p := preset(t, "director")
	for _, tc := range []struct {
		reason recovery.Reason
		caller string
		want   string
	}{
		{recovery.GitConflict, "deliver", "fix_attempt, escalate"},
		{recovery.GitConflict, "agent", "escalate"},
		{recovery.GitConflict, "stage", "escalate"},
		{recovery.Validation, "review", "fix_attempt×2, escalate"},
		{recovery.Validation, "stage", "escalate"},
		{recovery.Validation, "deliver", "escalate"},
		{recovery.TestsFailed, "review", "escalate"},
	} {
		if got := ladderOf(p, tc.reason, DecisionInput{Caller: tc.caller}); got != tc.want {
			t.Errorf("%s of %s: %q, want %q", tc.reason, tc.caller, got, tc.want)
		}
	}
}

func TestDecideWaits(t *testing.T) {
	p := preset(t, "director").With(Limits{MaxRetries: 3, Backoff: recovery.Backoff{
		Initial: time.Second,
		Max:     30 * time.Second, Factor: 2, Jitter: recovery.NoJitter,
	}})
	for _, tc := range []struct {
		name       string
		reason     recovery.Reason
		used       int
		retryAfter time.Duration
		action     recovery.Action
		delay      time.Duration
	}{
		{
			"a stated reset is waited for exactly", recovery.RateLimited, 0, 95 * time.Second, recovery.WaitReset,
			95 * time.Second,
		},
		{"nothing stated: a minute", recovery.RateLimited, 0, 0, recovery.WaitReset, time.Minute},
		{"nothing stated again: doubled", recovery.RateLimited, 2, 0, recovery.WaitReset, 4 * time.Minute},
		{"nothing stated for long: an hour at most", recovery.RateLimited, 19, 0, recovery.WaitReset, time.Hour},
		{"a negative wait does not count", recovery.RateLimited, 0, -time.Hour, recovery.WaitReset, time.Minute},
		{"a reset too far away", recovery.RateLimited, 0, 7 * time.Hour, recovery.Escalate, 0},
		{"a stated quota", recovery.QuotaExhausted, 0, 3 * time.Hour, recovery.WaitReset, 3 * time.Hour},
		{"backoff doubles", recovery.NetworkTransient, 2, 0, recovery.Retry, 4 * time.Second},
		{
			"an overloaded provider's Retry-After is obeyed past the backoff's cap", recovery.Overloaded, 0,
			5 * time.Minute, recovery.Retry, 5 * time.Minute,
		},
		{
			"a short Retry-After does not shorten the backoff", recovery.Overloaded, 2, time.Second, recovery.Retry,
			4 * time.Second,
		},
		{"a Retry-After of hours: a human is sooner", recovery.Overloaded, 0, 2 * time.Hour, recovery.Escalate, 0},
		{"a row that ignores stated waits", recovery.AgentCrash, 0, 2 * time.Hour, recovery.Retry, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := recovery.Finding{Reason: tc.reason}
			_, tally := story(p, f, DecisionInput{}, tc.used)
			f.RetryAfter = tc.retryAfter
			v := p.Decide(f, tally, DecisionInput{}, "s")
			if v.Action != tc.action || v.Delay != tc.delay {
				t.Errorf("%s after %s, want %s after %s (%s)", v.Action, v.Delay, tc.action, tc.delay, v.Why)
			}
		})
	}
}

var whyCases = []struct {
	preset string
	reason recovery.Reason
	facts  DecisionInput
	n      int
	want   string
}{
	{"director", recovery.NetworkTransient, DecisionInput{}, 1, "network_transient: 1 of 3"},
	{"director", recovery.NetworkTransient, DecisionInput{}, 4, "network_transient: all 3 retries are used up"},
	{"director", recovery.OOMKilled, DecisionInput{}, 2, "oom_killed: the one retry is used up"},
	{
		"director", recovery.ContextOverflow,
		DecisionInput{HasAlternative: true},
		2,
		"context_overflow: 2 of 2 (retry_alternative)",
	},
	{
		"director", recovery.QuotaExhausted,
		DecisionInput{},
		1,
		"quota_exhausted: a quota, credit or usage cap is used up; an unchanged attempt would fail the same way",
	},
	{"gdd", recovery.NetworkTransient, DecisionInput{}, 4, "network_transient: its retries are used up; now " +
		"network_permanent: a host name, certificate or route is wrong; an unchanged attempt would fail the same way"},
	{"cortex", recovery.NetworkTransient, DecisionInput{HasAlternative: true}, 2, "network_transient: 2 of 3"},
	{
		"cortex", recovery.NetworkTransient,
		DecisionInput{HasAlternative: true},
		5,
		"network_transient: retry_alternative number 2, limited only by the guards",
	},
	{
		"cortex", recovery.NetworkTransient,
		DecisionInput{HasAlternative: true},
		6,
		"network_transient: 6 errors in a row, more than 5",
	},
	{
		"gdd", recovery.Timeout,
		DecisionInput{Caller: "update-check"},
		1,
		"timeout: the work exceeded a deadline; the policy allows no retry",
	},
	{"gdd", recovery.RateLimited, DecisionInput{}, 2, "rate_limited: the reset time is unknown: wait 2m"},
	{"cortex", recovery.Validation, DecisionInput{}, 1, "validation: skip, because there is no other model"},
	{"cortex", recovery.Validation, DecisionInput{}, 3, "validation: skip, because there is no other model"},
	{"cortex", recovery.Validation, DecisionInput{}, 4, "validation: skipped 3 times already"},
	{
		"cortex", recovery.Validation,
		DecisionInput{HasAlternative: true},
		5,
		"validation: skip, because 3 more attempts did not help",
	},
	{"reviewcat", recovery.Timeout, DecisionInput{}, 2, "timeout: 2 of 3"},
	{
		"reviewcat", recovery.Timeout,
		DecisionInput{},
		4,
		"timeout: director.max_retries = 3 used up, counting all causes",
	},
	{"dispatch", recovery.Timeout, DecisionInput{}, 1, "timeout: 1 of 1 with this signature"},
}

// TestWhy checks the explanations of verdicts.
func TestWhy(t *testing.T) {
	for _, tc := range whyCases {
		if v, _ := story(preset(t, tc.preset), recovery.Finding{Reason: tc.reason, Signature: "sig:0"}, tc.facts,
			tc.n); v.Why != tc.want {
			t.Errorf("%s, failure %d: %q, want %q", tc.preset, tc.n, v.Why, tc.want)
		}
	}
}

// TestUnstatedWaits checks that unstated waits grow, and that their explanation does not mention a reset.
func TestUnstatedWaits(t *testing.T) {
	for _, doc := range []string{
		`base = "gdd"`, `base = "reviewcat"`,
		"[[row]]\non = \"*\"\nladder = [{ action = \"wait_reset\", times = 20 }]",
	} {
		p, err := Parse("own", nil, []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		f := recovery.Finding{Reason: recovery.RateLimited}
		for n, want := range map[int]time.Duration{1: time.Minute, 2: 2 * time.Minute, 10: time.Hour} {
			v, _ := story(p, f, DecisionInput{}, n)
			if v.DelayMin < want || v.DelayMin > want+time.Second || v.Why != "rate_limited: the reset time is "+
				"unknown: wait "+
				Span(want) {
				t.Errorf("%s, wait %d: %+v", doc, n, v)
			}
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 12345 * time.Microsecond: "12ms", 500 * time.Millisecond: "500ms", 1500 * time.Millisecond: "1.5s",
		time.Minute:              "1m",
		90500 * time.Millisecond: "1m31s", time.Hour: "1h", 5400 * time.Second: "1h30m", 6 * time.Hour: "6h",
		24 * time.Hour: "24h",
		31 * day:       "31 days", 51 * time.Hour: "2 days 3h", 2*day - 1: "2 days",
	} {
		if got := Span(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

// TestCallers checks that integration points and steps have separate rows, even if a caller is named by its file.
func TestCallers(t *testing.T) {
	for _, tc := range []struct {
		preset, caller string
		reason         recovery.Reason
		want           string
	}{
		{"gdd", "", recovery.AuthError, "escalate"},
		{"gdd", "figma-probe", recovery.AuthError, "stop"},
		{"gdd", "Figma", recovery.AuthError, "stop"},
		{"gdd", "nobody", recovery.AuthError, "escalate"},
		{"gdd", "figma-probe", recovery.NetworkTransient, "retry×3, escalate"},
		{"gdd", "hooks/budget-enforcer.ts", recovery.RateLimited, "cooldown×21"},
		{"gdd", "watch-authorities", recovery.Validation, "skip×21"},
		{"gdd", "update-check", recovery.Unknown, "skip×21"},
		{"gdd", "mcp-transport", recovery.ToolNotFound, "reprobe, escalate"},
		{"gdd", "mcp-transport", recovery.AuthError, "stop"},
		{"prp", "initializeSession", recovery.Timeout, "abort"},
		{"prp", "decomposePRD", recovery.TestsFailed, "abort"},
		{"prp", "executeBacklog", recovery.TestsFailed, "skip×21"},
		{"prp", "executeBacklog", recovery.Timeout, "retry×2, skip×21"},
		{"prp", "mcp", recovery.Timeout, "retry, skip×21"},
		{"prp", "runQACycle", recovery.DiskFull, "skip×21"},
		{"prp", "cleanup", recovery.CorruptState, "skip×21"},
		{"reviewcat", "github", recovery.Overloaded, "cooldown×20, escalate"},
	} {
		if got := ladderOf(preset(t, tc.preset), tc.reason, DecisionInput{Caller: tc.caller}); got != tc.want {
			t.Errorf("%s, %s in %q: %s, want %s", tc.preset, tc.reason, tc.caller, got, tc.want)
		}
	}
}

// TestConfigurationsBackoff checks that only the presets director and reviewcat use the configured backoff.
func TestConfigurationsBackoff(t *testing.T) {
	own := recovery.Backoff{Initial: time.Hour, Max: time.Hour, Factor: 1, Jitter: recovery.NoJitter}
	for _, name := range Presets {
		p := preset(t, name)
		got := p.With(Limits{Backoff: own}).Backoff()
		if want := name == "director" || name == "reviewcat"; (got == own) != want {
			t.Errorf("%s: %+v", name, got)
		}
		if p.Backoff() == own {
			t.Errorf("%s: With changed its receiver", name)
		}
	}
}

// TestRowsSpeakTheVocabulary checks that a reason's row is the row of its word in the preset's vocabulary.
func TestRowsSpeakTheVocabulary(t *testing.T) {
	for _, name := range Presets {
		for _, about := range recovery.Reasons {
			row, _ := preset(t, name).Row(about.Reason, "")
			word, _ := recovery.As(name, recovery.Finding{Reason: about.Reason})
			switch name {
			case "reviewcat": // its words name types of errors, and its rows name remedies
			case "prp":
				if row.Fatal != (word == "fatal") {
					t.Errorf("%s: %s is called %s, and its row %s is fatal: %v", name, about.Reason, word, row.id,
						row.Fatal)
				}
			default:
				if row.On != word {
					t.Errorf("%s: %s is called %s, and decided by %s", name, about.Reason, word, row.id)
				}
			}
		}
	}
}
