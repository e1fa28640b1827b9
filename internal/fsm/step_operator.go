package fsm

import (
	"strconv"
	"time"

	"retake/internal/recovery"
)

// operatorSaid pauses, drains or resumes. Work that runs is never thrown away by it.
func (m *Machine) operatorSaid(c OperatorCommand) {
	switch c {
	case Pause:
		m.setPhase(PhasePaused, "the operator paused")
		m.tellWorkers(DoPause)
	case Drain:
		m.unpause(PhaseDraining, "the operator drains")
	case Resume:
		if m.intent != "" {
			m.unpause(m.rest(), "the operator resumed")
		}
	}
}

// unpause leaves whatever phase the operator wanted. The time of a pause counts against nobody's watchdog.
func (m *Machine) unpause(to Phase, why string) {
	paused, gap := m.intent == PhasePaused, m.now.Sub(m.pausedAt)
	m.setPhase(to, why)
	if !paused {
		return
	}
	for _, t := range m.order {
		if t.watched() {
			m.record(WatchdogMoved{Task: t.Key, At: t.WatchdogAt.Add(gap)})
		}
	}
	m.tellWorkers(DoGoOn)
}

// rest is the phase when the operator wants nothing special.
func (m *Machine) rest() Phase {
	if m.githubOpens().After(m.now) {
		return PhaseCooldown
	}
	return PhaseMonitor
}

func (m *Machine) tellWorkers(k EffectKind) {
	for _, t := range m.order {
		if t.watched() {
			m.emit(t, Effect{Kind: k})
		}
	}
}

// agree tells a worker again what it should know by now: what was said may have been lost.
func (m *Machine) agree(t *Task) {
	switch pausing := m.phase == PhasePaused; {
	case pausing && !t.soft.Paused:
		m.emit(t, Effect{Kind: DoPause})
	case !pausing && t.soft.Paused:
		m.emit(t, Effect{Kind: DoGoOn})
	}
}

// answered lets a blocked task go on, and gives it its chances back; nothing else does. What the people said is read
// when the claim is resumed.
func (m *Machine) answered(a Answered) {
	t := m.Task(a.Task)
	if t == nil || t.State != Blocked || t.plans(DoEscalate) {
		return
	}
	by := a.By + ": " + a.Command
	m.record(TallyReset{Task: t.Key, By: by})
	m.move(t, OnUnblocked, by, m.now)
}

// budgetEdited takes an operator's number for what a task has used up.
func (m *Machine) budgetEdited(b BudgetEdited) {
	if t := m.Task(b.Task); t != nil && b.PaidCalls >= 0 && t.Tally.PaidCalls != b.PaidCalls {
		m.record(PaidCallsSet{Task: t.Key, PaidCalls: b.PaidCalls})
		m.afford(t)
		if budget := m.usedUp(t); t.State == Backoff && budget != "" {
			why := "the operator set the paid calls to " + strconv.FormatInt(b.PaidCalls, 10) + ", which uses the task's budget up"
			m.overtake(t, why)
			f := recovery.Finding{Reason: recovery.QuotaExhausted, Cause: why, Rule: "director.budget", Confidence: 1}
			m.block(t, f, "RETRY_WAIT", recovery.Refuse(f.Reason, budget, "director."+budget, why), false)
		}
	}
}

// readAnswers asks what people did to a blocked issue, and whether they may, when something changed on it. GitHub tells
// the time of the last change in seconds, so what was read within a few seconds of it is read once more. As long as the
// blocked label is off, somebody seems to have answered.
func (m *Machine) readAnswers(t *Task, v IssueView, asked time.Time) (judged bool) {
	const settle = 5 * time.Second
	switch {
	case m.held(DoRead):
		return false
	case v.has(LabelBlocked) && t.soft.read.Equal(v.UpdatedAt):
		return true
	}
	if asked.Sub(v.UpdatedAt) > settle {
		t.soft.read = v.UpdatedAt
	}
	m.emit(t, Effect{Kind: DoRead})
	return v.has(LabelBlocked)
}

// rowStale names the verdict on a claim that went stale again.
const rowStale = "claim_stale"

// maxStale bounds the memory of claims that went stale; an issue whose first time was forgotten gets another chance.
const maxStale = 500

// goneStale gives back a claim in which nothing happened for too long: others may have more luck. The second time a human
// is asked instead.
func (m *Machine) goneStale(t *Task) {
	why := "nothing happened in this claim for " + m.cfg.ClaimStale.String()
	for _, k := range m.stale {
		if k == t.Key {
			m.overtake(t, why)
			m.giveUp(t, t.lastFinding(why), "RETRY_WAIT", rowStale, "this claim went stale a second time")
			return
		}
	}
	m.record(ClaimWentStale{Task: t.Key})
	m.overtake(t, why)
	m.plan(t, Effect{Kind: DoRelease, Release: &ReleaseNote{Why: why, Restore: true}})
	m.move(t, OnStale, why, time.Time{})
}

// lastFinding is why the task waits for an attempt that does not come.
func (t *Task) lastFinding(why string) recovery.Finding {
	f := recovery.Finding{Reason: recovery.Unknown, Cause: why, Rule: "director.claim_stale", Confidence: 1}
	if n := len(t.History); n > 0 {
		f.Reason = t.History[n-1].Reason
		f.Cause += ", after: " + t.History[n-1].Cause
	}
	return f
}
