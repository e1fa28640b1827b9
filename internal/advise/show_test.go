package advise

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"retake/internal/recovery"
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
charges = "none"
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
guards   max_retries             3 re-dispatches over all causes, then escalate
         cost_budget_usd         2.5 USD, then stop
         waiting for a limit counts as an error in a row

FAILURE               LADDER                 WAITS                METER          THEN
rate_limited          wait_reset ×20         stated, up to 6h     rate_limit     escalate
                      retry_alternative ×∞   else 1m, doubled up
                      if has_alternative       to 1h
                      if !already_compacted  then the backoff
                                             backoff, stated up
                                               to 6h
outage                retry ×3               5s, linear, up to    nothing        becomes
- network_transient                            1m30s              per signature  network_permanent
- overloaded
outage                                                                           skip
@watch-the-authoriti                                                             fatal
  es-fetcher
- overloaded
*                                                                                escalate
`

func parsed(t *testing.T, doc string) *recovery.Policy {
	t.Helper()
	p, err := recovery.ParsePolicy("mine", nil, []byte(doc))
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
	for _, name := range recovery.Presets {
		p, err := recovery.Preset(name)
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
	var got policyJSON
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
	if l := limited.Ladder; len(l) != 2 || l[0].Times != 20.0 || l[1].Times != "unlimited" || len(l[1].When) != 2 || limited.Wait.Longest != 21600 {
		t.Errorf("rate_limited: %+v", limited)
	}
	if len(outage.Reasons) != 2 || outage.Backoff == nil || outage.Backoff.Formula != "linear" || outage.Becomes != recovery.NetworkPermanent || outage.Charges != recovery.Free {
		t.Errorf("outage: %+v", outage)
	}
}

func TestRefusedDocumentsAreFaultsUnlessTheyCannotBeRead(t *testing.T) {
	for _, c := range []struct{ doc, want string }{
		{"[[row]]\non = \"timeout\"\nthen = \"retry\"\n\n[[row]]\non = \"luck\"\n", "mine: line 3: row[0].then: "},
		{"[[row]\n", ""},
	} {
		_, why := recovery.ParsePolicy("mine", nil, []byte(c.doc))
		var b strings.Builder
		ok, err := RefusedPolicy(why, &b)
		if ok || (c.want == "") != (err != nil) || !strings.HasPrefix(b.String(), c.want) {
			t.Errorf("%q: %v %v %q", c.doc, ok, err, b.String())
		}
		if c.want != "" && strings.Count(b.String(), "\n") != 3 { // and no row for the other reasons
			t.Errorf("%q: want a line per fault in\n%s", c.doc, b.String())
		}
	}
	var b strings.Builder
	if _, err := RefusedPolicy(errors.New("no such file"), &b); err == nil || b.Len() > 0 {
		t.Errorf("a missing file: %v, %q", err, b.String())
	}
}
