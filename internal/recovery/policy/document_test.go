package policy

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/recovery"
)

// TestFaultsAreToldAllAtOnce checks that the error lists all faults, each with its line, key and allowed values.
func TestFaultsAreToldAllAtOnce(t *testing.T) {
	_, err := Parse("own.toml", nil, []byte(`base = "directr"
colour = "red"

[guards]
max_retries = "three"
on_paid_call_budget = "retry"   # not an end

[[row]]
on = "network_transient"
ladder = [
  { action = "retry", times = 3 },
  { action = "retyr", tmies = 1, when = ["has_alternativ"] },
]
then = "wait_reset"

[[row]]
on = "gremlins"
backoff = { formula = "fixed", base_seconds = -1, jitter = "none", add_seconds = 1 }

[[row]]
on = "network_transient"
`))
	if !errors.Is(err, ErrDocument) {
		t.Fatal(err)
	}
	want := []string{
		`line 1: base: unknown value "directr" (did you mean "director"?)`,
		`line 2: colour: unknown key, want one of base, about, configured_backoff, continue_on_error, incidents_outrank_never, backoff, guards, row`,
		`line 5: guards.max_retries: got a string, want a whole number`,
		`line 6: guards.on_paid_call_budget: unknown value "retry"; want one of skip, reclaim, escalate, stop, abort`,
		`line 12: row "network_transient", step 2: action: unknown value "retyr" (did you mean "retry"?)`,
		`line 12: row "network_transient", step 2: tmies: unknown key, did you mean times?`,
		`line 12: row "network_transient", step 2: when: unknown value "has_alternativ" (did you mean "has_alternative"?)`,
		`line 14: row "network_transient": then: unknown value "wait_reset"; want one of skip, reclaim, escalate, stop, abort`,
		`line 17: row "gremlins": on: "gremlins" is not a reason; a custom name needs a list of its reasons`,
		`line 18: row "gremlins": backoff.base_seconds: want a number of seconds from 0 to 2678400 (31 days), got -1`,
		`line 18: row "gremlins": backoff.add_seconds: requires jitter "additive"`,
		`line 21: row "network_transient": on: duplicate row on "network_transient"`,
	}
	got := strings.Split(err.Error(), "\n")
	for i := range got {
		got[i] = strings.TrimPrefix(got[i], "recovery: policy: own.toml: ")
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestOneMistakeIsOneFault checks that consequences of a fault are not reported.
func TestOneMistakeIsOneFault(t *testing.T) {
	for doc, want := range map[string]string{
		"[[row]]\non = 5": `line 2: row 1: on: got 5, want a string`,
		"[[row]]\n[[row]]\non " +
			"= \"timeout\"": `line 1: row 1: on: want a reason, a custom name or "*"`,
		"[[row]]\non = \"mine\"\nreasons = " +
			"[\"timeot\"]": `line 3: row "mine": reasons: unknown value "timeot" (did you mean "timeout"?)`,
		"[[row]]\non = \"mine\"\ncaller = \"c\"\nreasons = " +
			"[]": `line 2: row "mine" for caller "c": on: "mine" is not a reason; a custom name needs a list of its reasons`,
		"[[row]]\non = \"timeot\"": `line 2: row "timeot": on: "timeot" is not a reason; a custom name needs a list of its reasons (did you mean "timeout"?)`,
		"[[row]]\non = \"timeout\"\nladder = [{ " +
			"times = 1 }]": `line 3: row "timeout", step 1: action: is required`,
		"[[row]]\non = \"timeout\"\nladder = [{ action = \"leap\" " +
			"}]": `line 3: row "timeout", step 1: action: unknown value "leap"; want one of wait_reset, retry, retry_compact, retry_alternative, replan, fix_attempt, revalidate, reprobe, restart_worker, cooldown, skip, reclaim, escalate, stop, abort`,
		"[[row]]\non = \"timeout\"\nladder = [{ action = \"retry\", times = -1 " +
			"}]": `line 3: row "timeout", step 1: times: want a whole number from 0 to 1000, or "unlimited", got -1`,
		"[guards]\ncost_budget_usd = -1": `line 2: guards.cost_budget_usd: want a number from 0 to 1000000000, got -1`,
	} {
		_, err := Parse("own", preset(t, "director"), []byte(doc))
		if err == nil || err.Error() != "recovery: policy: own: "+want {
			t.Errorf("%q\n got %v\nwant %s", doc, err, want)
		}
	}
	_, err := Parse("own", nil, []byte("[[row]]\non = \"timeout\"\nbecomes = \"resting in peace\""))
	if err == nil || strings.Contains(err.Error(), "of ,") ||
		!strings.Contains(err.Error(), "want one of rate_limited, ") {
		t.Error(err)
	}
}

// TestReviewTellsAll checks that refusals and settings without effect are reported in the order of their lines.
func TestReviewTellsAll(t *testing.T) {
	limits := &Limits{MaxRetries: 3, MaxConsecutiveErrors: recovery.Unlimited, IterationBudget: recovery.Unlimited}
	for _, tc := range []struct {
		doc    string
		limits *Limits
		want   string
	}{
		{
			"[[row]]\non = \"timeout\"\nladder = [{ action = \"retry\", times = 0 }]\n[[row]]\non = " +
				"\"unknown\"\nthen = \"retry\"\nladder = [{ action = \"retry\", times = 0 }]\n[guards]\nmax_retries " +
				"= -2", nil,
			`own.toml: line 1: own.timeout: unreachable: step 1 (retry) runs 0 times
own.toml: line 4: own.unknown: unreachable: step 1 runs 0 times
own.toml: line 6: row "unknown": then: unknown value "retry"; want one of skip, reclaim, escalate, stop, abort
own.toml: line 9: guards.max_retries: want a whole number from -1 to 1000000, got -2`,
		},
		{"# nothing", nil, `own.toml: no_effect: the document is empty`},
		{
			"[backoff]\nbase_seconds = 60", nil,
			`own.toml: line 1: contradicts: [backoff] cap_seconds, 30s, is below base_seconds, 1m, so every wait equals the cap`,
		},
		{"[backoff]\nbase_seconds = 60", &Limits{Backoff: recovery.DefaultBackoff}, ``},
		{
			"[[row]]\non = \"timeout\"\nladder = [{ action = \"retry\" }]\nbackoff = { base_seconds = 9, " +
				"cap_seconds = 3 }", nil,
			`own.toml: line 1: own.timeout: contradicts: backoff: cap_seconds, 3s, is below base_seconds, 9s, so every wait equals the cap`,
		},
		{"[[row]]\non = \"rate_limited\"\nladder = [{ action = \"wait_reset\", times = \"unlimited\" }]", nil, ``},
		{
			"[[row]]\non = \"rate_limited\"\nladder = [{ action = \"wait_reset\", times = \"unlimited\" }]", limits,
			`own.toml: line 1: own.rate_limited: endless: wait_reset is unlimited without a guard; the engine stops it after 100 attempts`,
		},
		{"[[row]]\non = \"timeout\"\ncaller = \"an unknown caller\"\nthen = \"skip\"", nil, ``},
	} {
		_, faults, err := Review("./conf/own.toml", preset(t, "director"), []byte(tc.doc), tc.limits)
		var got []string
		for _, f := range faults {
			got = append(got, strings.Replace(f.String(), "./conf/", "", 1))
		}
		if text := strings.Join(got, "\n"); err != nil || text != tc.want {
			t.Errorf("%s\n\ngot\n%s\nwant\n%s", tc.doc, text, tc.want)
		}
	}
}

// TestStandings checks that the document's rows come first, and that the base's rows list the rows that override them.
func TestStandings(t *testing.T) {
	p, err := Parse("own", preset(t, "dispatch"),
		[]byte("[[row]]\non = \"mine\"\nreasons = [\"auth_error\", \"permission_denied\", \"timeout\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	all := p.Standings()
	if !all[0].Own || all[0].Name != "own.mine" || all[0].By != nil || len(all) != len(p.Table()) {
		t.Errorf("%+v", all[0])
	}
	for _, s := range all[1:] {
		switch {
		case s.Own:
			t.Errorf("%s is own", s.Name)
		case (s.On == "auth") != slices.Equal(s.By, []string{"own.mine"}):
			t.Errorf("%s: %v", s.Name, s.By)
		case s.On == "transient" && (len(s.Taken) != 1 || s.Taken[recovery.Timeout] != "own.mine"):
			t.Errorf("%s: %v", s.Name, s.Taken)
		}
	}
	for _, s := range preset(t, "gdd").Standings() {
		if s.Own || s.By != nil {
			t.Errorf("%+v", s)
		}
	}
}

// TestOverride checks that missing values come from the base.
func TestOverride(t *testing.T) {
	p, err := Parse("own", preset(t, "gdd"), []byte(`
base = "director"
[guards]
max_retries = 9
[[row]]
on = "rate_limited"
wait = { longest_seconds = 60 }
[[row]]
on = "tests_failed"
ladder = [{ action = "fix_attempt", times = 2 }]
[[row]]
on = "timeout"
caller = "nightly"
then = "skip"
`))
	if err != nil {
		t.Fatal(err)
	}
	d := preset(t, "director")
	is, was := p.Guards(), d.Guards()
	if was.MaxRetries = 9; is != was {
		t.Errorf("guards %+v, want %+v", is, was)
	}
	for _, about := range recovery.Reasons {
		old, _ := d.Row(about.Reason, "")
		now, _ := p.Row(about.Reason, "")
		switch about.Reason {
		case recovery.RateLimited:
			want := old
			want.Wait.Longest, want.id = time.Minute, "own.rate_limited"
			sameRow(t, now, want)
		case recovery.TestsFailed:
			if len(now.Ladder) != 1 || now.Ladder[0].Action != recovery.FixAttempt || now.Why != old.Why {
				t.Errorf("%+v", now)
			}
		default:
			sameRow(t, now, old) // and the preset's id
		}
	}
	nightly, _ := p.Row(recovery.Timeout, "nightly")
	if nightly.Then != recovery.Skip || len(nightly.Ladder) != 1 || nightly.id != "own.timeout@nightly" {
		t.Errorf("%+v", nightly)
	}
	if v := p.Decide(recovery.Finding{Reason: recovery.RateLimited, RetryAfter: time.Hour}, recovery.Tally{},
		DecisionInput{}, "s"); v.Action != recovery.Escalate || v.Row != "own.rate_limited" {
		t.Errorf("%+v", v)
	}
}

func sameRow(t *testing.T, is, want Row) {
	t.Helper()
	if is.id != want.id || is.Wait != want.Wait || is.Then != want.Then || is.Count != want.Count ||
		len(is.Ladder) != len(want.Ladder) {
		t.Errorf("%+v\nwant %+v", is, want)
	}
}

// TestOneReasonOutOfAWord checks a row for one reason of a group. The row inherits missing values from the group's row,
// and the group keeps its other reasons.
func TestOneReasonOutOfAWord(t *testing.T) {
	p, err := Parse("own", nil,
		[]byte("base = \"dispatch\"\n[[row]]\non = \"timeout\"\nladder = [{ action = \"retry\", times = 4 }]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for r, want := range map[recovery.Reason]int{recovery.Timeout: 4, recovery.NetworkTransient: 1} {
		if got := exhaustsAfter(p, recovery.Finding{Reason: r, Signature: "sig:1"}, DecisionInput{}); got != want {
			t.Errorf("%s: %d retries, want %d", r, got, want)
		}
	}
	if row, _ := p.Row(recovery.Timeout, ""); row.Then != recovery.Stop || row.Count != BySignature {
		t.Errorf("%+v", row)
	}
}

// TestOwnWord checks that a new group takes its reasons from the base's rows, which keep their other reasons.
func TestOwnWord(t *testing.T) {
	p, err := Parse("own", nil,
		[]byte("base = \"director\"\n[[row]]\non = \"flaky\"\nreasons = [\"timeout\", \"network_transient\"]\nladder "+
			"= [{ action = \"retry\", attempts = 5 }]\n"))
	if err != nil {
		t.Fatal(err)
	}
	p = p.With(Limits{MaxRetries: recovery.Unlimited})
	for r, want := range map[recovery.Reason]string{
		recovery.Timeout:          "retry×4, escalate",
		recovery.NetworkTransient: "retry×4, escalate", recovery.OOMKilled: "restart_worker, escalate",
	} {
		if got := ladderOf(p, r, DecisionInput{}); got != want {
			t.Errorf("%s: %s, want %s", r, got, want)
		}
	}
}

// TestNewEndTakesTheOldOneAway checks that settings that have no effect with the new ladder or end are not inherited.
func TestNewEndTakesTheOldOneAway(t *testing.T) {
	p, err := Parse("own", nil, []byte(`
base = "gdd"
[[row]]
on = "network_transient"
then = "stop"
[[row]]
on = "rate_limited"
ladder = []
`))
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := story(p, recovery.Finding{Reason: recovery.NetworkTransient}, DecisionInput{},
		4); v.Action != recovery.Stop || v.Was != "" {
		t.Errorf("%+v", v)
	}
	if faults := p.Check(); len(faults) > 0 {
		t.Errorf("%v", faults)
	}
}

func TestSyntaxErrorsAreErrPolicy(t *testing.T) {
	for _, doc := range []string{
		"[[row", "a = 1\na = 2", "\xff", "row = 3", "row = [1]", "[row]\non = 1",
		"backoff = 1",
	} {
		if _, err := Parse("own", nil, []byte(doc)); !errors.Is(err, ErrDocument) {
			t.Errorf("%q: %v", doc, err)
		}
	}
	if _, err := Preset("directr"); !errors.Is(err, ErrDocument) || !strings.Contains(err.Error(), "cortex") {
		t.Error(err)
	}
}
