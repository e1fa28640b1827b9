package fsmtest

import (
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// directorFaults are what happens to a director now and then without anybody having asked for it.
func (w *world) directorFaults(p *process) {
	if p.dead || w.bad != nil || p != w.lead {
		return
	}
	w.after(seconds(60)+w.delay(600), func() { w.directorFaults(p) })
	switch {
	case p.asleep > w.now:
	case w.fault(asleep):
		p.slept, p.asleep = w.now, w.now+seconds(10)+w.delay(600)
		p.wake = w.wakes(p)
	case w.fault(leaderStale):
		w.replace()
	case w.fault(signalled):
		w.offer(p, fsm.SignalReceived{Signal: "SIGTERM"}, nil)
		w.after(w.delay(4), func() { w.crash(p, "it was told to end") })
	case w.fault(operatorSays):
		w.operatorActs(p)
	case w.fault(limitReported):
		resources := [...]string{fsm.GitHubRead, fsm.GitHubWrite, recovery.ModelDefault, "model.anthropic"}
		r := resources[w.choices.pick(limitReported, len(resources))]
		w.offer(p, fsm.CooldownReported{Resource: r, Until: epoch.Add(time.Duration(w.now + w.limit())), Why: "429"}, nil)
	case w.fault(outage):
		to, way := w.now+w.delay(7200), w.choices.pick(outage, len(failureEvidence)+2)
		if way >= len(failureEvidence) {
			w.gitTo = to
			break
		}
		w.outageTo, w.outageEnd = to, failureEvidence[way]
	case w.fault(runtimeBehind):
		if len(w.containers) > 0 {
			w.remove(w.containers[w.choices.pick(runtimeBehind, len(w.containers))].attempt)
		}
	case w.fault(limitStated):
		w.limitSaid()
	case w.fault(limitLifted):
		w.lift(p)
	}
}

// replace makes another director the leader, which the old one does not notice for a while.
func (w *world) replace() {
	if w.stale != nil {
		w.end(w.stale, "its lease ran out")
	}
	old := w.lead
	w.stale = old
	w.boot()
	w.after(w.delay(400), func() { w.end(old, "its lease ran out") })
}

// operate says a command, and resume some time later.
func (w *world) operatorActs(p *process) {
	if w.choices.pick(operatorSays, 4) == 3 {
		k := w.issues[w.choices.pick(operatorSays, len(w.issues))].key
		w.offer(p, fsm.BudgetEdited{Task: k, PaidCalls: int64(w.choices.pick(operatorSays, w.limits.PaidCallBudget+2))}, func() {})
		return
	}
	c := [...]fsm.OperatorCommand{fsm.Pause, fsm.Drain}[w.choices.pick(operatorSays, 2)]
	w.offer(p, fsm.OperatorCommanded{Command: c}, func() {})
	w.after(w.delay(1800), func() { w.offer(w.lead, fsm.OperatorCommanded{Command: fsm.Resume}, func() {}) })
}
