package fsmtest

import (
	"fmt"
	"strings"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// nothingIntoOutage: what is dispatched while a breaker is open, or beside its canary, runs into the same outage. An
// incident of one repository is no other's.
func nothingIntoOutage(_ *history, p *process, _ time.Time, _ fsm.EventBody, facts []fsm.Fact, _ []fsm.Effect) string {
	for _, f := range facts {
		begins, ok := f.(fsm.EffectPlanned)
		if !ok || begins.Effect.Kind != fsm.DoClaim && begins.Effect.Kind != fsm.DoRecheck {
			continue
		}
		for _, i := range p.m.Incidents() {
			if !about(i, begins.Effect.Task) {
				continue
			}
			switch i.Breaker.State(p.m.Now()) {
			case recovery.BreakerOpen:
				return fmt.Sprintf("%s is dispatched, %s is open", begins.Effect.Task, i.Key)
			case recovery.BreakerHalfOpen:
				if i.Breaker.Canary != string(begins.Effect.Task) {
					return fmt.Sprintf("%s is dispatched, %s has let %q through", begins.Effect.Task, i.Key, i.Breaker.Canary)
				}
			}
		}
	}
	return ""
}

// about reports whether an incident keeps a task back: a failure of what all use is everybody's, another its repository's.
func about(i fsm.Incident, k fsm.IssueKey) bool {
	everybodys := strings.HasPrefix(i.Key, "model") || strings.HasPrefix(i.Key, "host/")
	return everybodys || i.Repo == k.Repo()
}

// othersGoOn: what no incident concerns is dispatched as ever.
func othersGoOn(h *history, p *process, _ time.Time, _ fsm.EventBody, _ []fsm.Fact, _ []fsm.Effect) string {
	open := p.m.Incidents()
	if len(open) == 0 || p.m.Phase() != fsm.PhaseMonitor || len(p.m.Cooldowns()) > 0 {
		return ""
	}
	slots, waits := 0, ""
	for _, t := range p.m.Tasks() {
		switch {
		case t.State.Info().Slot || t.State == fsm.Backoff && len(t.Outbox) > 0:
			slots++
		case waits == "" && (t.State == fsm.Queued || t.State == fsm.Backoff && !t.Until.After(p.m.Now())):
			if !concerned(open, t.Key) {
				waits = fmt.Sprintf("%s waits beside a free slot, and none of %d incidents is about it", t.Key, len(open))
			}
		}
	}
	if slots >= h.w.maxWorkers {
		return ""
	}
	return waits
}

func concerned(open []fsm.Incident, k fsm.IssueKey) bool {
	for _, i := range open {
		if about(i, k) {
			return true
		}
	}
	return false
}
