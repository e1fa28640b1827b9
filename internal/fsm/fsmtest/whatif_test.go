package fsmtest

import (
	"fmt"
	"testing"

	"retake/internal/fsm"
	"retake/internal/whatif"
)

// followed runs worlds, replays each journal under another configuration, and calls found with each report. It skips
// worlds in which the configuration changed, because the journal does not contain the old values.
func followed(t *testing.T, worlds int, other func(*world) fsm.Config, found func(*world, *whatif.Report)) {
	t.Helper()
	for n := range worlds {
		w := assemble(newChoices(worldSeed(62, n)))
		var records []fsm.Record // the configuration is drawn before the first records
		by := map[string]bool{}
		w.directors.follow = func(p *process, r fsm.Record) {
			records = append(records, r)
			by[fmt.Sprintf("%p %d %v %v", p.cfg.Policy, p.cfg.FixRounds, p.cfg.HasAlternative,
				p.cfg.CleanValidation)] = true
		}
		w.begin()
		runWorld(w, worldSteps)
		if w.bad != nil {
			t.Fatalf("world %d: %v", n, w.bad)
		}
		if len(by) > 1 {
			continue
		}
		f := whatif.New(other(w), whatif.Options{})
		f.Apply(0, records)
		found(w, f.Report())
	}
}

// A replay under the original configuration makes the same decisions, including delays and their jitter, waits for
// incidents, canaries, budgets and fix rounds.
func TestTheSamePolicyDecidesTheSame(t *testing.T) {
	t.Parallel()
	worlds := effort(30, 150)
	var sum whatif.Counts
	followed(t, worlds, func(w *world) fsm.Config { return w.directors.set.cfg }, func(w *world, r *whatif.Report) {
		for _, c := range r.Cases {
			t.Errorf("%s, %s:\n%+v", w.directors.set.preset, c.Kind, *c)
		}
		sum.Same += r.Counts.Same
		sum.ByIncident += r.Counts.ByIncident
		sum.NotAsked += r.Counts.NotAsked
		if r.Counts.PolicyAlone+r.Counts.Later+r.Counts.Unknown+r.Counts.Unread > 0 {
			t.Errorf("%+v", r.Counts)
		}
	})
	if sum.Same < 6*worlds || sum.ByIncident == 0 || sum.NotAsked == 0 {
		t.Errorf("too little was seen: %+v", sum)
	}
	t.Logf("%+v", sum)
}

// With one more retry, some decisions differ. The first difference of a claim is a verdict that depends on max_retries,
// and only the first one is reported.
func TestAnotherBoundOfRetriesIsFound(t *testing.T) {
	t.Parallel()
	cases := 0
	followed(t, effort(20, 100), func(w *world) fsm.Config {
		c, l := w.directors.set.cfg, w.directors.set.limits
		l.MaxRetries++
		c.Policy = policies()[w.directors.set.preset].With(l)
		return c
	}, func(w *world, r *whatif.Report) {
		claims := map[string]bool{}
		for _, c := range r.Cases {
			nonce, _, _ := fsm.ParseAttemptID(c.Worker)
			if c.Was.Veto != "max_retries" && c.Was.Action.Again() || c.Would.Veto == "max_retries" || claims[nonce] {
				t.Errorf("%s: %+v", w.directors.set.preset, *c)
			}
			claims[nonce] = true
			cases++
		}
	})
	if cases == 0 {
		t.Error("no world had a difference")
	}
}
