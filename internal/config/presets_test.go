package config

import (
	"testing"

	"retake/internal/recovery"
	"retake/internal/recovery/policy"
)

// TestARunDecidesAsThePresetSays checks that a configuration with only recovery.preset has the same verdicts as the
// preset, for every failure and any number of repetitions. The default bounds must not end a ladder of the preset
// early.
func TestARunDecidesAsThePresetSays(t *testing.T) {
	for _, name := range policy.Presets {
		c, problems := load("c.toml", []byte("recovery.preset = \""+name+"\""), nil, nil)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		tables, problems := c.Tables()
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		alone, err := policy.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		run := tables.Policy.With(c.Limits())
		for _, about := range recovery.Reasons {
			for _, alternative := range []bool{false, true} {
				a, b := recovery.Tally{}, recovery.Tally{}
				for n := range 120 {
					f := recovery.Finding{Reason: about.Reason, Signature: "sig"}
					facts := policy.DecisionInput{HasAlternative: alternative}
					v, w := alone.Decide(f, a, facts, "seed"), run.Decide(f, b, facts, "seed")
					if v.Action != w.Action || v.DelayMin != w.DelayMin || v.DelayMax != w.DelayMax {
						t.Errorf("%s, %s, failure %d, alternative %v: alone %s after %s, in a run %s after %s: %s",
							name, about.Reason, n+1, alternative, v.Action, v.DelayMax, w.Action, w.DelayMax, w.Why)
						break
					}
					if !v.Action.Again() {
						break
					}
					a, b = a.After(f, v), b.After(f, w)
				}
			}
		}
	}
}
