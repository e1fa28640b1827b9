package fsm

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
)

// Apply applies a fact that was decided at the given time. No other function changes the hard state. A fact's apply
// method reads only the fact and the state, so replaying a journal reproduces its writer's state.
func (m *agenda) Apply(at time.Time, f Fact) {
	m.apply(at, f)
	m.dirty = m.dirty[:0] // a replay does not emit effects
}

// Replay applies the records of a batch.
func (m *agenda) Replay(records []Record) {
	for _, r := range records {
		for _, f := range r.Facts {
			m.Apply(r.At, f)
		}
	}
}

func (m *agenda) apply(at time.Time, f Fact) {
	m.advance(at)
	m.hard.Decided = m.now
	about, ok := f.(taskFact)
	if !ok {
		f.apply(m, nil)
	} else if t := m.Task(about.task()); t != nil {
		f.apply(m, t)
		m.settle(t)
	}
}

// settle indexes a changed task, and drops a final task with an empty outbox from memory.
func (m *agenda) settle(t *Task) {
	if over := t.State == Forgotten || t.State.Info().Final; over && len(t.Outbox) == 0 {
		m.drop(t)
		return
	}
	m.index(t)
}

// A cooldown or shutdown does not change the operator's pause or drain. Only the operator ends it.
func (f PhaseChanged) apply(m *agenda, _ *Task) {
	m.hard.Phase = f.To
	if f.To != PhaseDraining && f.To != PhaseShutdown { // every other phase clears the abort
		m.hard.Aborted = ""
	}
	switch f.To {
	case PhasePaused, PhaseDraining:
		if m.hard.Intent != PhasePaused && f.To == PhasePaused {
			m.hard.PausedAt = m.now
		}
		m.hard.Intent = f.To
		if why, aborted := strings.CutPrefix(f.Why, abortsRun); aborted {
			m.hard.Aborted = why
		}
	case PhaseMonitor, PhaseCooldown:
		m.hard.Intent = ""
	}
}

func (f CursorAdvanced) apply(m *agenda, _ *Task) {
	m.hard.Cursors = slices.DeleteFunc(m.hard.Cursors, func(c RepoCursor) bool { return c.Repo == f.Repo })
	m.hard.Cursors = append(m.hard.Cursors, RepoCursor(f))
}

func (f CooldownSet) apply(m *agenda, _ *Task) {
	others := slices.DeleteFunc(m.hard.Cooldowns, func(c Cooldown) bool { return c.Resource == f.Resource })
	m.hard.Cooldowns = append(withoutLongEnded(others, m.now), Cooldown(f))
}

func (f CooldownLifted) apply(m *agenda, _ *Task) {
	m.hard.Cooldowns = slices.DeleteFunc(m.hard.Cooldowns, func(c Cooldown) bool { return c.Resource == f.Resource })
	for i := range m.hard.Statements {
		if s := &m.hard.Statements[i]; s.Resource == f.Resource {
			s.Until, s.AloneUntil = time.Time{}, time.Time{}
		}
	}
	for _, k := range f.Tasks {
		if t := m.Task(k); t != nil && t.State == Backoff {
			t.Until = m.now
			m.settle(t)
		}
	}
}

func (f LimitStated) apply(m *agenda, _ *Task) {
	m.hard.Statements = slices.DeleteFunc(m.hard.Statements, func(s Statement) bool {
		return s.Resource == f.Resource && s.Task.fold() == f.Task.fold() || m.now.Sub(s.At) >= longestStated
	})
	m.hard.Statements = append(m.hard.Statements, Statement(f))
	m.hard.Statements = m.hard.Statements[max(0, len(m.hard.Statements)-maxStatements):]
}

func (f IncidentChanged) apply(m *agenda, _ *Task) {
	m.hard.Incidents = slices.DeleteFunc(m.hard.Incidents, func(i Incident) bool { return i.Key == f.Incident.Key })
	if !f.Over {
		m.hard.Incidents = append(m.hard.Incidents, f.Incident)
	}
}

func (f TaskQueued) apply(m *agenda, _ *Task) {
	m.hard.Seq++
	m.add(&Task{
		Key: f.Task, Nonce: f.Nonce, Seq: m.hard.Seq, Title: f.Title, URL: f.URL, Standing: f.Standing,
		State: Queued, Since: m.now,
	})
}

// StateKept is the first fact of a rebuilt journal. It precedes all tasks.
func (f StateKept) apply(m *agenda, _ *Task) {
	none := m.hard.Tasks
	m.hard = f.State
	m.hard.Tasks, m.hard.Decided = none, m.now
}

// The caller still uses the fact's lists, so give the task copies.
func (f TaskRebuilt) apply(m *agenda, _ *Task) {
	m.hard.Seq++
	t := f.Rebuilt
	t.Seq = m.hard.Seq
	t.Reports, t.History, t.Hints, t.Outbox = slices.Clone(t.Reports), slices.Clone(t.History), slices.Clone(t.Hints),
		slices.Clone(t.Outbox)
	m.add(&t)
	m.settle(&t)
}

func (RebuildWritten) apply(*agenda, *Task) {}

func (f TaskRenamed) apply(_ *agenda, t *Task) { t.Title, t.URL = f.Title, f.URL }

func (f StandingChanged) apply(m *agenda, t *Task) {
	if t.slot {
		m.slots.label(t, -1)
		defer m.slots.label(t, 1)
	}
	t.Standing = f.Standing
}

func (f Moved) apply(m *agenda, t *Task) {
	t.State, t.Since, t.Until = f.To, m.now, f.Until
	t.Open, t.Heard = nil, nil
	switch {
	case f.To == Delivering:
		t.Next.Deliver = false
	case f.Turn:
		m.hard.serve(t.Key.Repo(), m.now)
	}
	if f.From == Starting {
		t.Waits = nil
	}
	if f.On == OnIncidentOver {
		t.IncidentWaits++
	}
	switch f.On {
	case OnIncidentOver, OnUnblocked, OnSnoozed, OnDeliverAgain:
		// After OnDeliverAgain, the same attempt may be claimed again, and its effects then need new ids.
		t.Answers++
	}
	t.Resumed = t.Resumed || (f.From == Blocked || f.From == InReview) && (f.To == Backoff || f.To == Parked)
}

func (f AttemptBegan) apply(_ *agenda, t *Task) {
	t.Attempt, t.WatchdogAt, t.UpAt, t.Used = f.N, f.WatchdogAt, time.Time{}, recovery.Usage{}
	t.Next, t.Ending, t.Validates = Next{}, Ending{}, f.Next.Validate
	t.LeavesValidation, t.Travels, t.Waits = f.LeavesValidation, f.Travels, nil
	t.soft = soft{inFlight: t.soft.inFlight}
}

func (f ContainerStarted) apply(m *agenda, t *Task) {
	t.UpAt, t.WatchdogAt = m.now, f.WatchdogAt
	t.Waits = nil
	if t.State == Starting {
		t.Until = f.HelloBy
	}
}

func (LabelsConfirmed) apply(m *agenda, t *Task) { t.LabelsAt, t.Resumed = m.now, false }

func (f ReportAccepted) apply(_ *agenda, t *Task) {
	t.Reports = append(t.Reports, f.Worker+"/"+f.Ref.ID)
	t.Reports = t.Reports[max(0, len(t.Reports)-maxReports):]
	switch {
	case !f.Final:
	case f.OK && t.Ending.Finding == nil:
		t.Ending.end(OutcomeOK)
	case !f.OK && t.Ending.Finding == nil && t.Ending.Outcome != OutcomeOK:
		t.Ending.end(OutcomeFailed)
		t.Ending.Finding, t.Ending.Stage, t.Ending.Report, t.Ending.Provider = f.Finding, f.Stage, &f.Ref, f.Provider
		if f.Assertion != nil && f.Assertion.Explicit {
			t.Ending.Word = f.Assertion
		}
	}
}

func (WorkerAnswered) apply(*agenda, *Task) {}

func (f WatchdogMoved) apply(_ *agenda, t *Task) { t.WatchdogAt = f.At }

func (f HintsGiven) apply(_ *agenda, t *Task) { t.Hints = f.Hints }

func (f ClaimWentStale) apply(m *agenda, _ *Task) {
	m.hard.StaleClaims = append(m.hard.StaleClaims, f.Task)
	m.hard.StaleClaims = m.hard.StaleClaims[max(0, len(m.hard.StaleClaims)-maxStale):]
}

func (f EndingSet) apply(_ *agenda, t *Task) {
	t.Ending.end(f.Outcome)
	switch {
	case f.Outcome == OutcomeWithdrawn:
		t.Ending.Withdrawn, t.Ending.Taken = f.Cause, f.Taken
	case t.Ending.Known == "":
		t.Ending.Known, t.Ending.KnownCause, t.Ending.Resource = f.Known, f.Cause, f.Resource
		t.Ending.Order = f.Order
	}
}

func (f ValidationDue) apply(_ *agenda, t *Task) {
	t.Next = Next{Action: recovery.Revalidate, Validate: true}
}

// Only a verdict charges the tally.
func (f VerdictMade) apply(m *agenda, t *Task) {
	t.History = append(t.withRoom(), Failure{
		Attempt: f.Attempt, Stage: f.Stage, Reason: f.Finding.Reason, Cause: f.Finding.Cause,
		Action: f.Verdict.Action, At: m.now, Signature: f.Finding.Signature,
	})
	t.History = t.History[max(0, len(t.History)-maxHistory):]
	t.Tally = f.charge(t.Tally)
	t.Next = f.next(t.Ending.Order)
	t.Incident, t.soft.topic = f.Incident, TopicOf(f.Verdict)
	if f.Verdict.Row == rowIncident {
		t.IncidentWaits++
	}
	t.Alternative = t.Alternative || f.Verdict.Action == recovery.RetryAlternative
}

func (f UsageCounted) apply(_ *agenda, t *Task) {
	switch {
	case f.PaidCalls != nil:
		t.Tally.PaidCalls = *f.PaidCalls
	case f.Ended:
		t.Tally, t.Used = t.Tally.Use(f.Usage), recovery.Usage{}
		t.Spent = f.Spent
	default:
		t.Used = f.Usage
	}
}

func (f TallyReset) apply(_ *agenda, t *Task) {
	t.Tally, t.Next, t.Alternative, t.IncidentWaits = t.Tally.Answered(), f.Next, false, 0
	t.Tally.Redispatches = f.Redispatches
	if f.By != t.Commanded { // a newer command has arrived
		t.Commanded = ""
	}
}

func (f CommandTaken) apply(m *agenda, _ *Task) {
	switch {
	case f.Comment != 0:
		m.hard.Commands = append(m.hard.Commands, takenCommand{f.CommandRef, f.Refused})
		m.hard.Commands = m.hard.Commands[max(0, len(m.hard.Commands)-maxCommands):]
	case f.operators():
		m.hard.Requests = append(m.hard.Requests, takenCommand{f.CommandRef, f.Refused})
		m.hard.Requests = m.hard.Requests[max(0, len(m.hard.Requests)-maxRequests):]
		if t := m.Task(f.Task); t != nil && f.Refused == "" {
			t.Commanded = commandWords(f.By, f.Command, f.CommandRef)
		}
	}
}

func (f CommentHeard) apply(m *agenda, t *Task) {
	m.hard.Heard = append(m.hard.Heard, heardComment{f.CommandRef, f.Answers})
	m.hard.Heard = m.hard.Heard[max(0, len(m.hard.Heard)-maxCommands):]
	t.Heard = &Remark{By: f.By, At: f.At}
}

func (f ReviewNoted) apply(_ *agenda, t *Task) { t.Reviewed = f.Reviewed }

// Only the work is stored here. The following Moved fact changes the task's state.
func (f WorkDelivered) apply(m *agenda, _ *Task) {
	m.hard.StaleClaims = slices.DeleteFunc(m.hard.StaleClaims, func(k IssueKey) bool { return k == f.Task })
	if t := m.Task(f.Task); t != nil {
		t.Work = f.Delivery
		if f.Delivery.PullRequest > 0 { // from here on, problems with the pull request count as new failures
			t.Tally = t.Tally.Delivered()
		}
	}
}

// A push with a question does not open a pull request, so the task keeps its existing one.
func (f WorkPushed) apply(_ *agenda, t *Task) {
	f.Work.PullRequest = cmp.Or(f.Work.PullRequest, t.Work.PullRequest)
	t.Work = f.Work
}

func (f EffectPlanned) apply(_ *agenda, t *Task) {
	t.Outbox = append(t.Outbox, Planned{Effect: f.Effect})
	if f.Effect.Kind == DoRemind {
		t.Until = time.Time{} // remind only once
	}
}

func (f EffectDone) apply(_ *agenda, t *Task) {
	t.Outbox = slices.DeleteFunc(t.Outbox, func(p Planned) bool { return p.Effect.ID == f.Effect })
	if len(t.Outbox) == 0 {
		t.Outbox = nil // free the backing array, because most outboxes stay empty
	}
	if f.Asked != nil && t.State == Blocked {
		t.Open = &OpenQuestion{Comment: f.Asked.Comment, AgentAsked: f.Asked.AgentAsked}
	}
}

func (f EffectDeferred) apply(_ *agenda, t *Task) {
	for i := range t.Outbox {
		if p := &t.Outbox[i]; p.Effect.ID == f.Effect {
			p.Tries, p.NotBefore, p.Since, p.Refused, p.Failing = f.Tries, f.Until, f.Since, f.Refused, f.Failing
		}
	}
}

// end merges an outcome. A withdrawal overrides a success, and a success overrides a failure.
func (e *Ending) end(o Outcome) {
	if outcomeRank[o] > outcomeRank[e.Outcome] {
		e.Outcome = o
	}
}

var outcomeRank = map[Outcome]int{OutcomeFailed: 1, OutcomeOK: 2, OutcomeWithdrawn: 3}

// add stores a task in memory and indexes it.
func (m *agenda) add(t *Task) {
	m.hard.Tasks = append(m.hard.Tasks, t)
	m.tasks[t.Key.fold()], m.nonces[t.Nonce] = t, t
	m.index(t)
}

func (m *agenda) drop(t *Task) {
	if i, ok := slices.BinarySearchFunc(m.hard.Tasks, t.Seq,
		func(t *Task, seq uint64) int { return cmp.Compare(t.Seq, seq) }); ok {
		m.hard.Tasks = slices.Delete(m.hard.Tasks, i, i+1)
	}
	delete(m.tasks, t.Key.fold())
	delete(m.nonces, t.Nonce)
	m.index(t)
}

// index puts the task into the queues for its state, or removes it from all queues if it has left memory.
func (m *agenda) index(t *Task) {
	var timer, ready place
	var of alike
	slot, finished, owes := false, false, false
	if m.nonces[t.Nonce] == t {
		if at := m.deadline(t); !at.IsZero() {
			timer = placeAt(0, at)
		}
		switch {
		case t.State == Queued && len(t.Standing.After) == 0 && m.takes(t):
			ready = placeAt(1, t.turn())
		case t.State == Backoff && len(t.Outbox) == 0 && !t.Until.After(m.now):
			ready = placeAt(0, t.Until)
		}
		if ready.in {
			of = alike{
				repo: t.Key.Repo(), queued: t.State == Queued, noModel: !t.Next.usesModel(),
				capped: strings.Join(t.Standing.Capped, "\n"),
			}
		}
		slot, finished, owes = t.holdsSlot(), t.awaitsHandIn(), t.owesContent()
		if t.soft.inFlight == "" && len(t.Outbox) > 0 && !t.Outbox[0].NotBefore.After(m.now) {
			m.dirty = append(m.dirty, t) // NotBefore has passed, so no timer would emit the effect
		}
	}
	m.timers.move(t, t.timer, timer)
	t.timer = timer
	m.ready.move(t, ready, of)
	m.slots.move(t, slot)
	tally(&m.finished, &t.finished, finished)
	tally(&m.owes, &t.owes, owes)
}

// tally sets a task's flag, and updates n, the number of tasks with that flag.
func tally(n *int, flag *bool, set bool) {
	switch {
	case set && !*flag:
		*n++
	case !set && *flag:
		*n--
	}
	*flag = set
}
