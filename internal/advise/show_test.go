package advise

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

const mine = `
backoff = { formula = "exponential", base_seconds = 1, factor = 2, cap_seconds = 8, jitter = "additive", add_seconds = 0.5 }
guards = { max_retries = 3, cost_budget_usd = 2.5, on_cost_budget_usd = "stop", waits_are_errors = true }

[[row]]
on = "rate_limited"
ladder = [{ action = "wait_reset", times = 20 }, { action = "retry_alternative", times = "unlimited", when = ["has_alternative", "!already_compacted"] }]
wait = { default_seconds = 60, cap_seconds = 3600, longest_seconds = 21600, then_backoff = true }

[[row]]
on = "outage"
count = "signature"
reasons = ["network_transient", "overloaded"]
ladder = [{ action = "retry", times = 3 }]
backoff = { formula = "linear", base_seconds = 5, cap_seconds = 90 }
then = "stop"
becomes = "network_permanent"

[[row]]
on = "outage"
caller = "watch-the-authorities-fetcher"
reasons = ["overloaded"]
then = "skip"
fatal = true

[[row]]
on = "*"
`

const mineShown = `policy   mine
backoff  1s ×2 up to 8s, plus up to 500ms
guards   max_retries             3 re-dispatches for any cause except rate limits, then escalate
         cost_budget_usd         2.5 USD, then stop
         waiting for a limit counts as a consecutive error

FAILURE               LADDER                 WAITS                 METER           THEN
rate_limited          wait_reset ×20         stated, up to 6h      rate_limit      escalate
                      retry_alternative ×∞   else 1m, doubling up
                      if has_alternative       to 1h
                      if !already_compacted  then the backoff
                                             backoff, stated up
                                               to 6h
outage                retry ×3               5s, linear, up to     reason's cause  becomes
- network_transient                            1m30s               per signature   network_permanent
- overloaded
outage                                                                             skip
@watch-the-authoriti                                                               fatal
  es-fetcher
- overloaded
*                                                                                  escalate
`

func parsed(t *testing.T, doc string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("mine", nil, []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPolicyIsShown(t *testing.T) {
	var b strings.Builder
	if err := ShowPolicy(parsed(t, mine), &b); err != nil {
		t.Fatal(err)
	}
	if b.String() != mineShown {
		t.Errorf("got\n%s\nwant\n%s", b.String(), mineShown)
	}
}

func TestPresetsFitOnATerminal(t *testing.T) {
	for _, name := range policy.Presets {
		p, err := policy.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := ShowPolicy(p, &b); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
	}
}

// TestPolicyForMachinesIsTheWholePolicy compares a few values of every kind.
func TestPolicyForMachinesIsTheWholePolicy(t *testing.T) {
	var b strings.Builder
	if err := ShowPolicyJSON(parsed(t, mine), &b); err != nil {
		t.Fatal(err)
	}
	type backoff struct {
		Formula string  `json:"formula"`
		Add     float64 `json:"add_seconds"`
	}
	var got struct {
		Policy  string                `json:"policy"`
		Backoff backoff               `json:"backoff"`
		Guards  map[string]*guardJSON `json:"guards"`
		Rows    []struct {
			Reasons []recovery.Reason `json:"reasons"`
			Becomes recovery.Reason   `json:"becomes"`
			Backoff *backoff          `json:"backoff"`
			Ladder  []struct {
				Times any      `json:"times"`
				When  []string `json:"when"`
			} `json:"ladder"`
			Wait struct {
				Longest float64 `json:"longest_seconds"`
			} `json:"wait"`
		} `json:"row"`
	}
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err)
	}
	if got.Policy != "mine" || got.Backoff.Add != 0.5 || got.Backoff.Formula != "exponential" || len(got.Rows) != 4 {
		t.Errorf("got %+v", got)
	}
	if g := got.Guards["cost_budget_usd"]; g == nil || g.Bound != 2.5 || g.Then != recovery.Stop {
		t.Errorf("guards: %+v", got.Guards)
	}
	if g, ok := got.Guards["iteration_budget"]; !ok || g != nil {
		t.Errorf("an absent guard is not null: %+v", got.Guards)
	}
	limited, outage := got.Rows[0], got.Rows[1]
	if l := limited.Ladder; len(l) != 2 || l[0].Times != 20.0 || l[1].Times != "unlimited" || len(l[1].When) != 2 ||
		limited.Wait.Longest != 21600 {
		t.Errorf("rate_limited: %+v", limited)
	}
	if len(outage.Reasons) != 2 || outage.Backoff == nil || outage.Backoff.Formula != "linear" ||
		outage.Becomes != recovery.NetworkPermanent {
		t.Errorf("outage: %+v", outage)
	}
}

func TestOwnRowsAreShownFirst(t *testing.T) {
	base, err := policy.Preset("dispatch")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse("mine.toml", base,
		[]byte("[[row]]\non = \"flaky\"\nreasons = [\"auth_error\", \"permission_denied\", \"timeout\"]\n"+
			"ladder = []\n"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := ShowPolicy(p, &b, "a warning"); err != nil {
		t.Fatal(err)
	}
	const want = `policy   mine
backoff  always 5s
guards   paid_call_budget        10 paid calls, including failed calls, then stop
rows     + marks rows from the policy file
unused   dispatch.auth: mine.flaky decides

FAILURE              LADDER            WAITS               METER           THEN
+ flaky                                                                    escalate
- auth_error
- permission_denied
- timeout
transient            retry ×1          backoff, stated up  reason's cause  stop
- rate_limited                           to 1h             per signature
- quota_exhausted
- overloaded
- network_transient
- timeout:
  mine.flaky
`
	if !strings.HasPrefix(b.String(), want) || strings.Contains(b.String(), "\nauth ") ||
		!strings.HasSuffix(b.String(), "\n\nwarning: a warning\n") {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestCheckedPolicies(t *testing.T) {
	base, err := policy.Preset("director")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		doc, want string
		ok        bool
	}{
		{
			"[[row]]\non = \"timeout\"\nthen = \"stop\"\n", "warning: w\nmine.toml: ok, with the limits of c.toml\n",
			true,
		},
		{
			"[[row]]\non = \"flaky\"\nreasons = [\"timeout\"]\nthen = \"stop\"\n",
			"warning: w\nnote: director.timeout is unused, because mine.flaky takes precedence\n" +
				"mine.toml: ok, with the limits of c.toml\n", true,
		},
		{
			"[[row]]\non = \"timeout\"\nladder = [{ action = \"skip\", times = 0 }]\n",
			"mine.toml: line 1: mine.timeout: unreachable: step 1 (skip) runs 0 times\nwarning: w\nmine.toml: " +
				"works, but see the notes above; with the limits of c.toml\n", false,
		},
		{
			"[[row]]\non = \"timeout\"\nladder = [{ action = \"leap\" }]\n",
			"mine.toml: line 3: row \"timeout\", step 1: action: unknown value \"leap\"; want one of wait_reset,\n  " +
				"retry, retry_compact, retry_alternative, replan, fix_attempt, revalidate, reprobe, restart_worker,\n" +
				"  cooldown, skip, reclaim, escalate, stop, abort\nwarning: w\nmine.toml: refused\n", false,
		},
	} {
		p, faults, err := policy.Review("mine.toml", base, []byte(c.doc), nil)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		ok, err := CheckPolicy(Checked{
			Name: "mine.toml", Policy: p, Faults: faults, Warnings: []string{"w"},
			Limits: "the limits of c.toml",
		}, &b)
		if ok != c.ok || err != nil || b.String() != c.want {
			t.Errorf("%s: %v %v\n got %s\nwant %s", c.doc, ok, err, b.String(), c.want)
		}
	}
}
