package policy

import (
	"errors"
	"testing"
	"time"

	"retake/internal/recovery"
)

// FuzzPolicy checks that Parse either returns ErrDocument or accepts the bytes as a policy. With any base, an accepted
// policy can be checked, and its verdicts are complete, have bounded waits and end after a bounded number of attempts.
func FuzzPolicy(f *testing.F) {
	for _, name := range Presets {
		data, err := presets.ReadFile("presets/" + name + ".toml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint8(0))
	}
	for _, doc := range []string{
		"", "\x00", "base = \"gdd\"\n[[row]]\non = \"timeout\"\nladder = [{ action = \"retry\", times = " +
			"\"unlimited\" }]\n",
		"[[row]]\non = \"*\"\nbecomes = \"unknown\"\nwait = { longest_seconds = 1e300 }\n",
		"row = [{ on = \"*\" }]\n[row.wait]\n",
		"[guards]\nmax_retries = 1e5\ncost_budget_usd = nan\n[backoff]\nfactor = inf\nspread = -0.0\n",
		"a.b.c = { d = [[{ e = '''\n''' }]] }\n[[row.ladder]]\n", "[[row]]\non = \"\"\"\\\n  unknown\"\"\"\n",
	} {
		f.Add([]byte(doc), uint8(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, base uint8) {
		var from *Policy
		if n := int(base) % (len(Presets) + 1); n > 0 {
			from = preset(t, Presets[n-1])
		}
		p, err := Parse("fuzz", from, data)
		if err != nil {
			if !errors.Is(err, ErrDocument) {
				t.Fatalf("%q", err)
			}
			return
		}
		p.Check()
		for _, about := range recovery.Reasons {
			fd := recovery.Finding{Reason: about.Reason, Signature: "sig:0", RetryAfter: time.Minute}
			var tally recovery.Tally
			granted := 0
			for range engineCap + 2 {
				v := p.Decide(fd, tally, DecisionInput{HasAlternative: base%2 == 0}, "s")
				if v.Action.About().Action == "" || v.Why == "" || v.DelayMin < 0 || v.Delay > v.DelayMax ||
					v.DelayMax > 5*recovery.LongestWait {
					t.Fatalf("%+v", v)
				}
				if v.Action.Again() {
					granted++
				}
				tally = tally.After(fd, v)
			}
			if granted > engineCap {
				t.Fatalf("%s: %d attempts", about.Reason, granted)
			}
		}
	})
}
