package fsmtest

import (
	"fmt"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery/policy"
)

// settings are what the invariants ask of a configuration: all facts between two changes of it were decided by one.
type settings struct {
	cfg    fsm.Config
	preset string
	limits policy.Limits
}

func (w *world) settings() settings { return settings{w.cfg, w.preset, w.limits} }

// readSettings has a director read a file that somebody has edited: anything may be another value that a
// running director takes.
func (w *world) readSettings(p *process) {
	pick := func(n int) int { return w.choices.pick(settingsRead, n) }
	w.preset, w.limits = presets[pick(len(presets))], budgets[pick(len(budgets))]
	w.limits.MaxRetries = pick(5)
	w.claimStale = claimStales[pick(len(claimStales))]
	before := w.cfg
	w.cfg = machineConfig(1+pick(3), w.claimStale, w.preset, w.limits)
	w.cfg.HasAlternative, w.cfg.Models = pick(2) == 1, [][]string{nil, {"model.anthropic"}}[pick(2)]
	w.cfg.RemindAfter, w.cfg.DeliverFor = remindAfters[pick(len(remindAfters))], deliverFors[pick(len(deliverFors))]
	w.cfg.StopGrace = [...]time.Duration{10 * time.Second, 0, 25 * time.Second}[pick(3)]
	w.cfg.Watchdog = [...]time.Duration{watchdog, watchdog / 2}[pick(2)]
	w.cfg.CleanValidation, w.cfg.FixRounds, w.cfg.Caps = before.CleanValidation, 1+pick(3), before.Caps
	w.cfg.PendingTimeout, w.cfg.CheckoutTravels = before.PendingTimeout, before.CheckoutTravels
	s := fsm.SettingsChanged{By: "file", Digest: fmt.Sprint(len(w.kept) + 1), Keys: []string{"director.max_workers"}}
	w.kept = append(w.kept, w.settings())
	cfg := w.cfg
	w.offer(p, fsm.SettingsRead{SettingsChanged: s, Config: &cfg}, nil)
}

// readBy is the configuration that a fact says was read.
func (w *world) readBy(f fsm.SettingsChanged) settings {
	var n int
	if _, err := fmt.Sscan(f.Digest, &n); err != nil || n < 1 || n > len(w.kept) {
		w.fail(decidesNothing, "no configuration %q was read", f.Digest)
		return w.settings()
	}
	return w.kept[n-1]
}

// decidesNothing names the invariant of a configuration that is read again.
const decidesNothing = "ReadingDecidesNothing"

// planKept: the time that an attempt was given when it began is what its container gets.
func planKept(h *history, _ *process, r fsm.Record, f fsm.Fact) string {
	up, ok := f.(fsm.ContainerStarted)
	if !ok {
		return ""
	}
	if c := h.claim(up.Task); c != nil && c.life > 0 && c.state == fsm.Starting && up.WatchdogAt.Sub(r.At) != c.life {
		return fmt.Sprintf("attempt %d of %s began with %s, and has %s", c.attempt, c.key, c.life,
			up.WatchdogAt.Sub(r.At))
	}
	return ""
}

// readingDecidesNothing: what a configuration that is read again changes is decided by it; the reading itself
// stops, begins and charges nothing, and a running attempt keeps the deadlines of its plan. What time or a free
// slot brings in the same step is another matter.
func readingDecidesNothing(_ *history, _ *process, _ time.Time, body fsm.EventBody, facts []fsm.Fact,
	_ []fsm.Effect,
) string {
	if _, ok := body.(fsm.SettingsRead); !ok {
		return ""
	}
	if len(facts) == 0 {
		return "a configuration was read, and the journal does not say so"
	}
	if _, ok := facts[0].(fsm.SettingsChanged); !ok {
		return fmt.Sprintf("%T comes before the configuration that decides", facts[0])
	}
	for _, f := range facts[1:] {
		switch f := f.(type) {
		case fsm.AttemptBegan, fsm.VerdictMade, fsm.WatchdogMoved, fsm.ContainerStarted, fsm.TallyReset,
			fsm.UsageCounted, fsm.ReportAccepted:
			if v, ok := f.(fsm.VerdictMade); ok && v.Verdict.Row == "director.claim_stale" { // its time has come
				continue
			}
			return fmt.Sprintf("%T follows from reading a configuration", f)
		case fsm.EndingSet:
			// deadlines that have passed meanwhile
			if f.Known != "timeout" && f.Known != "worker_lost" && f.Known != "bus_disconnect" {
				return fmt.Sprintf("%s ends (%s) because a configuration was read", f.Task, f.Known)
			}
		}
	}
	return ""
}
