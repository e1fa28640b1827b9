package main

import (
	"strings"
	"testing"
)

// policyFiles writes the files of operatorPolicies.
const policyFiles = `printf '[[row]]\non = "timeout"\nladder = [{action="retry",times=2}]\n[guards]\nmax_retries = 7\n' >p.toml
printf '[[row]]\non = "timeout"\nladder = [{action="retry",times=0}]\n' >odd.toml
printf '[director]\nmax_retries = 4\n' >c.toml
printf '[recovery]\npolicy_file = "p.toml"\n' >of-p.toml
printf '[recovery]\npolicy_file = "odd.toml"\n' >of-odd.toml
printf '[[row]]\non = "luck"\n' >bad.toml
`

// operatorPolicies lists commands about policies with their exit codes and output.
var operatorPolicies = []struct {
	command string
	exit    int
	want    string // the whole output, or its beginning followed by …
}{
	{`director policy check`, 0, "director: ok, with the built-in limits\n"},
	{`director policy check p.toml`, 0, "p.toml: ok, with the built-in limits\n"},
	{`director policy check ./p.toml --set recovery.paid_call_budget=2`, 0, "./p.toml: ok, with the limits " +
		"set with --set\n"},
	{
		`director policy check p.toml -c c.toml`, 0,
		"warning: guards.max_retries = 7 is unused, because the configuration's director.max_retries = 4\n  " +
			"applies (remove that key to use the policy's value)\np.toml: ok, with the limits of c.toml\n",
	},
	{`director policy check -c of-p.toml`, 0, "p.toml: ok, with the limits of of-p.toml\n"},
	{`director policy check p.toml -c of-odd.toml`, 0, "p.toml: ok, with the limits of of-odd.toml\n"},
	{`director policy check --preset gdd -c of-odd.toml`, 0, "gdd: ok, with the limits of of-odd.toml\n"},
	{`director policy check odd.toml`, 1, "odd.toml: line 1: odd.timeout: unreachable: step 1 (retry) runs 0 " +
		"times\nodd.toml: works, but see the notes above; with the built-in limits\n"},
	{`director policy check bad.toml`, 1, "bad.toml: line 2: row \"luck\": on: \"luck\" is not a reason; a " +
		"custom name needs a list of its reasons\nbad.toml: refused\n"},
	{`director policy check /dev/null`, 1, "/dev/null: no_effect: the document is empty\n…"},
	{`director policy check p.toml --policy p.toml`, 2, "policy check p.toml --policy p.toml: specify only one file\n"},
	{`director policy show -c of-p.toml | head -3`, 0, "policy   p\nbackoff  1s ×2 up to 30s, full jitter\n" +
		"guards   max_retries             7 re-dispatches for any cause except rate limits, then escalate\n"},
	{`director policy show --policy p.toml -c c.toml | tail -2`, 0, "warning: guards.max_retries = 7 is " +
		"unused, because the configuration's director.max_retries = 4\n  applies (remove that key to use the " +
		"policy's value)\n"},
	{
		`director policy show --policy p.toml -c c.toml --json | tail -4`, 0,
		"  \"warnings\": [\n    \"guards.max_retries = 7 is unused, because the configuration's director.max_retries " +
			"= 4 applies (remove that key to use the policy's value)\"\n  ]\n}\n",
	},
	{
		`director config check -c of-p.toml --set director.max_retries=4 | grep warning`, 0,
		"warning: guards.max_retries = 7 is unused, …",
	},
	{
		`director config check -c of-odd.toml | grep warning`, 0,
		"warning: odd.toml: line 1: odd.timeout: unreachable: step 1 (retry) runs 0 times\n…",
	},
	{
		`echo '{"failures":[{"reason":"timeout"}]}' | director decide --policy p.toml -c c.toml`, 0,
		`{"action":"retry",…`,
	},
}

// TestOperatorPolicies checks that the commands name the file of a problem, and the source of the limits.
func TestOperatorPolicies(t *testing.T) {
	for _, c := range operatorPolicies {
		out, exit := shell(t, t.TempDir(), policyFiles+c.command)
		begins, isPart := strings.CutSuffix(c.want, "…")
		if exit != c.exit || !strings.HasPrefix(out, begins) || !isPart && out != begins {
			t.Errorf("%s\n  exit %d, want %d\n got %s\nwant %s", c.command, exit, c.exit, out, c.want)
		}
	}
}
