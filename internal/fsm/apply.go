package fsm

import (
	"cmp"
	"slices"
	"time"

	"retake/internal/recovery"
)

// Apply changes the hard state by one fact that was decided at the given time. It is the only thing that does, and
// reads nothing else: replaying the facts of a journal gives the state that the journal's writer had.
func (m *Machine) Apply(at time.Time, f Fact) {
	m.advance(at)
	m.decided = m.now
	switch f := f.(type) {
	case RunBegan:
		m.runID = f.RunID
	case PhaseChanged:
		m.applyPhase(f)
	case ClaimWentStale:
		m.stale = append(m.stale, f.Task)
		m.stale = m.stale[max(0, len(m.stale)-maxStale):]
	case CursorAdvanced:
		m.cursors = slices.DeleteFunc(m.cursors, func(c RepoCursor) bool { return c.Repo == f.Repo })
		m.cursors = append(m.cursors, RepoCursor(f))
	case CooldownSet:
		m.cooldowns = slices.DeleteFunc(m.cooldowns, func(c Cooldown) bool { return c.Resource == f.Resource || !c.Until.After(m.now) })
		m.cooldowns = append(m.cooldowns, Cooldown(f))
	case IncidentChanged:
		m.incidents = slices.DeleteFunc(m.incidents, func(i Incident) bool { return i.Key == f.Incident.Key })
		m.incidents = append(m.incidents, f.Incident)
	case IncidentOver:
		m.incidents = slices.DeleteFunc(m.incidents, func(i Incident) bool { return i.Key == f.Key })
	case WorkerGreeted, StrangerMet: // nothing: they make an answer wait for the journal
	case TaskQueued:
		m.seq++
		m.add(&Task{Key: f.Task, Nonce: f.Nonce, Seq: m.seq, Title: f.Title, URL: f.URL, State: Queued, Since: m.now})
	case WorkDelivered: // told, not kept: the task ends with it
		m.stale = slices.DeleteFunc(m.stale, func(k IssueKey) bool { return k == f.Task })
	case taskFact:
		m.applyTo(f.task(), f)
	}
}

// applyPhase: what the operator wants survives a cooldown and a shutdown; only the operator ends it.
func (m *Machine) applyPhase(f PhaseChanged) {
	m.phase = f.To
	switch f.To {
	case PhasePaused, PhaseDraining:
		if m.intent != PhasePaused && f.To == PhasePaused {
			m.pausedAt = m.now
		}
		m.intent = f.To
	case PhaseMonitor, PhaseCooldown:
		m.intent = ""
	}
}

// applyTo changes one task and puts it where it belongs now. A final task with nothing left to do leaves memory.
func (m *Machine) applyTo(k IssueKey, f Fact) {
	t := m.Task(k)
	if t == nil {
		return
	}
	t.apply(m.now, f)
	if over := t.State == Forgotten || t.State.Info().Final; over && len(t.Outbox) == 0 {
		m.drop(t)
		return
	}
	m.index(t)
}

func (t *Task) apply(now time.Time, f Fact) {
	switch f := f.(type) {
	case TaskRenamed:
		t.Title, t.URL = f.Title, f.URL
	case Moved:
		t.State, t.Since, t.Until = f.To, now, f.Until
		switch f.On {
		case OnHealed:
			t.Spared++
			fallthrough
		case OnUnblocked:
			t.Resumed = true
			t.Answers++
		}
	case AttemptBegan:
		t.begin(f)
	case ContainerStarted:
		t.UpAt, t.WatchdogAt = now, f.WatchdogAt
		if t.State == Starting {
			t.Until = f.HelloBy
		}
	case LabelsConfirmed:
		t.LabelsAt, t.Resumed = now, false
	case WatchdogMoved:
		t.WatchdogAt = f.At
	case HintsGiven:
		t.Hints = f.Hints
	case ReportAccepted:
		t.accept(f)
	case EndingSet:
		t.Ending.end(f.Outcome)
		switch {
		case f.Outcome == OutcomeWithdrawn:
			t.Ending.Withdrawn = f.Cause
		case t.Ending.Known == "":
			t.Ending.Known, t.Ending.KnownCause = f.Known, f.Cause
		}
	case VerdictMade:
		t.History = append(t.History, Failure{
			Attempt: f.Attempt, Stage: f.Stage, Reason: f.Finding.Reason, Cause: f.Finding.Cause,
			Action: f.Verdict.Action, At: now, Signature: f.Finding.Signature,
		})
		t.History = t.History[max(0, len(t.History)-maxHistory):]
		t.Tally = t.Tally.After(f.Finding, f.Verdict) // charged here and nowhere else
		t.Next = Next{Action: f.Verdict.Action, Charges: f.Verdict.Charges, Reason: f.Finding.Reason}
		t.Incident = f.Incident
		if f.Verdict.Row == rowIncident {
			t.Spared++
		}
		t.Alternative = t.Alternative || f.Verdict.Action == recovery.RetryAlternative
	case TallyReset:
		t.Tally, t.Next, t.Alternative, t.Spared = t.Tally.Answered(), Next{}, false, 0
	case UsageSeen:
		t.Used = f.Usage
	case AttemptUsed:
		t.Tally, t.Used = t.Tally.Use(f.Usage), recovery.Usage{}
	case PaidCallsSet:
		t.Tally.PaidCalls = f.PaidCalls
	case EffectPlanned:
		t.Outbox = append(t.Outbox, Planned{Effect: f.Effect})
	case EffectDone:
		t.Outbox = slices.DeleteFunc(t.Outbox, func(p Planned) bool { return p.Effect.ID == f.Effect })
		t.land(f.Effect)
	case EffectDeferred:
		for i := range t.Outbox {
			if t.Outbox[i].Effect.ID == f.Effect {
				t.Outbox[i].Tries, t.Outbox[i].NotBefore = f.Tries, f.Until
			}
		}
		t.land(f.Effect)
	}
}

func (t *Task) land(effect string) {
	if t.soft.inFlight == effect {
		t.soft.inFlight = ""
	}
}

// begin starts attempt n.
func (t *Task) begin(f AttemptBegan) {
	t.Attempt, t.WatchdogAt, t.UpAt, t.Used = f.N, f.WatchdogAt, time.Time{}, recovery.Usage{}
	t.Next, t.Ending = Next{}, Ending{}
	s := t.soft
	t.soft = soft{inFlight: s.inFlight, touched: s.touched, counted: s.counted, timer: s.timer, ready: s.ready}
}

func (t *Task) accept(f ReportAccepted) {
	t.Reports = append(t.Reports, f.Worker+"/"+f.Ref.ID)
	t.Reports = t.Reports[max(0, len(t.Reports)-maxReports):]
	switch {
	case !f.Final:
	case f.OK && t.Ending.Finding == nil:
		t.Ending.end(OutcomeOK)
	case !f.OK && t.Ending.Finding == nil && t.Ending.Outcome != OutcomeOK:
		t.Ending.end(OutcomeFailed)
		ref := f.Ref
		t.Ending.Finding, t.Ending.Stage, t.Ending.Report, t.Ending.Provider = f.Finding, f.Stage, &ref, f.Provider
	}
}

// end merges an outcome: a withdrawal stands, a success beats a failure, the first failure is told.
func (e *Ending) end(o Outcome) {
	if outcomeRank[o] > outcomeRank[e.Outcome] {
		e.Outcome = o
	}
}

var outcomeRank = map[Outcome]int{OutcomeFailed: 1, OutcomeOK: 2, OutcomeWithdrawn: 3}

// add puts a task that is new to this process into memory.
func (m *Machine) add(t *Task) {
	t.soft.timer, t.soft.ready = -1, -1
	m.order = append(m.order, t)
	m.tasks[t.Key.fold()], m.nonces[t.Nonce] = t, t
	m.index(t)
}

func (m *Machine) drop(t *Task) {
	m.timers.remove(t)
	m.ready.remove(t)
	m.count(t, false)
	if i, ok := slices.BinarySearchFunc(m.order, t.Seq, func(t *Task, seq uint64) int { return cmp.Compare(t.Seq, seq) }); ok {
		m.order = slices.Delete(m.order, i, i+1)
	}
	delete(m.tasks, t.Key.fold())
	delete(m.nonces, t.Nonce)
	t.soft.dropped = true
}

// index puts the task where its state says: in the timers, in the ready queue, in the count of slots, among those that
// have something to emit.
func (m *Machine) index(t *Task) {
	if t.soft.dropped {
		return
	}
	m.count(t, t.holdsSlot())
	if at := m.due(t); at.IsZero() {
		m.timers.remove(t)
	} else {
		m.timers.put(t, 0, at)
	}
	switch {
	case t.State == Queued:
		m.ready.put(t, 1, t.Since)
	case t.State == Backoff && len(t.Outbox) == 0 && !t.Until.After(m.now):
		m.ready.put(t, 0, t.Until)
	default:
		m.ready.remove(t)
	}
	if t.soft.inFlight == "" && len(t.Outbox) > 0 && !t.Outbox[0].NotBefore.After(m.now) {
		m.touch(t) // its timer is gone with the deadline
	}
}

func (m *Machine) count(t *Task, holds bool) {
	if t.soft.counted == holds {
		return
	}
	t.soft.counted = holds
	if holds {
		m.slots++
	} else {
		m.slots--
	}
}
