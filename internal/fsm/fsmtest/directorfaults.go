package fsmtest

import (
	"time"

	"retake/internal/bus/lease"
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
	case w.fault(leaseFails):
		w.loseLease(p)
	case w.fault(signalled):
		w.offer(p, fsm.SignalReceived{Signal: "SIGTERM"}, nil)
		w.after(w.delay(4), func() { w.crash(p, "it was told to end") })
	case w.fault(operatorSays):
		w.operatorActs(p)
	case w.fault(limitReported):
		resources := [...]string{
			fsm.GitHubRead, fsm.GitHubWrite, fsm.GitHubAPI, recovery.ModelDefault,
			"model.anthropic", recovery.Host,
		}
		r := resources[w.choices.pick(limitReported, len(resources))]
		w.offer(p, fsm.CooldownReported{Resource: r, Until: epoch.Add(time.Duration(w.now + w.limit())), Why: "429"},
			nil)
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
	case w.fault(directorEnds):
		w.endForWhatItDoes()
	case w.fault(settingsRead):
		w.readSettings(p)
	case w.fault(githubAway):
		w.awayTo = w.now + w.delay(1800)
	}
}

// endForWhatItDoes stores a report of the director's own about an attempt that floods the bus, or fills the disk.
func (w *world) endForWhatItDoes() {
	if len(w.containers) == 0 {
		return
	}
	worker := w.containers[w.choices.pick(directorEnds, len(w.containers))].attempt
	known, id := recovery.PolicyViolation, "/offence"
	if w.choices.pick(directorEnds, 2) == 1 {
		known, id = recovery.ScopeViolation, "/disk"
	}
	w.publish(worker, fsm.Report{
		Ref: fsm.ReportRef{ID: worker + id, Seq: uint64(len(w.reports))}, Final: true, Stage: "CODE",
		Evidence: recovery.Evidence{Stage: "CODE", Known: known, KnownCause: "it does what it may not"},
	})
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

// loseLease cuts the leader off from the register of the lease, and from nothing else. A standby takes the
// lease when it may; the old leader, which may be suspended meanwhile, does not know of that: it has its own
// clock only.
func (w *world) loseLease(old *process) {
	if w.stale != nil || w.standing {
		return
	}
	w.standing = true
	their := func() time.Duration { return time.Duration(w.now) }
	stand := &lease.Term{Period: leasePeriod}
	stand.Saw(lease.Renewal{Revision: 1}, their()-leasePeriod*3/4)
	old.lease = &lease.Term{Period: leasePeriod}
	old.lease.Renewed(w.uptime(old)) // sent now, seen a little later
	w.tell("p%d has renewed its lease for the last time", old.id)
	if w.choices.pick(leaseFails, 2) == 0 {
		old.slept, old.asleep = w.now, w.now+w.delay(30)
		old.wake = w.wakes(old)
	}
	var look func()
	look = func() {
		switch {
		case w.bad != nil || old.dead || w.lead != old:
			w.standing = false
		case stand.Saw(lease.Renewal{Revision: 2}, their()):
			w.standing, w.stale = false, old
			w.boot()
			w.after(w.delay(60), func() { w.end(old, "its lease is over") })
		default:
			w.after(int64(leasePeriod/20), look)
		}
	}
	w.after(w.delay(1), look)
}

const leasePeriod = 10 * time.Second

// may: the shell carries out an effect at this moment. Without a lease a director that was replaced goes on
// until it hears of that.
func (w *world) may(p *process) bool {
	return p.lease == nil || p.lease.Leads(w.uptime(p))
}

// uptime is the clock of a process's machine that is never set. All of them run for longer than their wall
// clocks differ.
func (w *world) uptime(p *process) time.Duration { return time.Hour + time.Duration(w.now+p.skew) }

// operate says a command, and resume some time later.
func (w *world) operatorActs(p *process) {
	if w.choices.pick(operatorSays, 4) == 3 {
		k := w.issues[w.choices.pick(operatorSays, len(w.issues))].key
		w.offer(p, fsm.BudgetEdited{Task: k, PaidCalls: int64(w.choices.pick(operatorSays, w.limits.PaidCallBudget+2))},
			func() {})
		return
	}
	c := [...]fsm.OperatorCommand{fsm.Pause, fsm.Drain}[w.choices.pick(operatorSays, 2)]
	w.offer(p, fsm.OperatorCommanded{Command: c}, func() {})
	w.after(w.delay(1800), func() { w.offer(w.lead, fsm.OperatorCommanded{Command: fsm.Resume}, func() {}) })
}
