package metrics

import (
	"maps"
	"slices"
	"time"

	"retake/internal/fsm"
	"retake/internal/projection"
	"retake/internal/recovery"
)

// Label values: kinds of attempts, and results of commands and effects.
const (
	startFirst      = "first"
	startRetry      = "retry"
	startValidation = "validation"
	startAnswer     = "answer"

	commandAccepted = "accepted"
	commandRefused  = "refused"

	resultDone    = "done"
	resultGivenUp = "given_up"
)

// follow counts a fact. The caller must hold m.mu, and m.fleet must not be nil.
func (m *Metrics) follow(at time.Time, f fsm.Fact) {
	switch f := f.(type) {
	case fsm.PhaseChanged:
		m.fleet.phase = f.To
	case fsm.CooldownSet:
		maps.DeleteFunc(m.fleet.cooldowns, func(_ string, until time.Time) bool { return !until.After(at) })
		m.fleet.cooldowns[f.Resource] = f.Until
		m.cooldowns.WithLabelValues(resourceLabel(f.Resource)).Inc()
	case fsm.CooldownLifted:
		delete(m.fleet.cooldowns, f.Resource)
	case fsm.IncidentChanged:
		m.incident(at, f)
	case fsm.CommandTaken:
		m.commanded(f)
		m.followTask(at, f)
	case fsm.TaskQueued:
		t := &task{nonce: f.Nonce, state: fsm.Queued, since: at, after: len(f.Standing.After) > 0}
		if !t.after {
			t.queued = at
		}
		m.fleet.tasks[projection.Fold(f.Task)] = t
	case fsm.TaskRebuilt:
		m.fleet.tasks[projection.Fold(f.Rebuilt.Key)] = taskOf(&f.Rebuilt)
	case fsm.WorkDelivered:
		m.deliveries.Inc()
	default:
		m.followTask(at, f)
	}
}

func (m *Metrics) commanded(f fsm.CommandTaken) {
	result := commandAccepted
	if f.Refused != "" {
		result = commandRefused
	}
	m.commands.WithLabelValues(known(commands, string(f.Command)), result).Inc()
}

// followTask counts a fact about an existing task.
func (m *Metrics) followTask(at time.Time, f fsm.Fact) {
	key := projection.Fold(fsm.About(f))
	t := m.fleet.tasks[key]
	if t == nil {
		return
	}
	settled := t.course.Apply(f)
	if r := settled.Retry; r != nil {
		m.retries.WithLabelValues(reasonLabel(r.Reason), actionLabel(r.Action), settled.Became).Inc()
	}
	if settled.NeededNobody != "" {
		m.withoutHuman.WithLabelValues(settled.NeededNobody).Inc()
	}
	switch f := f.(type) {
	case fsm.StandingChanged:
		waited := t.after
		if t.after = len(f.Standing.After) > 0; waited && !t.after {
			t.queued = at
		}
	case fsm.AttemptBegan:
		m.began(at, t, f)
	case fsm.VerdictMade:
		t.reason = reasonLabel(f.Finding.Reason)
		m.decisions.WithLabelValues(t.reason, actionLabel(f.Verdict.Action)).Inc()
		if f.Disagrees {
			m.disagreements.WithLabelValues(t.reason).Inc()
		}
	case fsm.UsageCounted:
		m.used(projection.Spent(f))
	case fsm.EffectPlanned:
		t.outbox = append(t.outbox, planned{f.Effect.ID, f.Effect.Kind, f.Effect.At})
	case fsm.EffectDeferred:
		if i := t.effect(f.Effect); i >= 0 {
			m.effectRetries.WithLabelValues(string(t.outbox[i].kind)).Inc()
		}
	case fsm.EffectDone:
		m.effectDone(at, t, f)
	case fsm.Moved:
		m.moved(at, t, f)
	}
	if t.over() {
		delete(m.fleet.tasks, key)
	}
}

func (t *task) effect(id string) int {
	return slices.IndexFunc(t.outbox, func(p planned) bool { return p.id == id })
}

func (m *Metrics) effectDone(at time.Time, t *task, f fsm.EffectDone) {
	i := t.effect(f.Effect)
	if i < 0 {
		return
	}
	kind, result := t.outbox[i].kind, resultDone
	if f.Failed != "" {
		result = resultGivenUp
	}
	m.effects.WithLabelValues(string(kind), result).Inc()
	t.outbox = slices.Delete(t.outbox, i, i+1)
	if kind == fsm.DoEscalate && t.state == fsm.Blocked {
		t.asked = at
	}
}

func (m *Metrics) used(u recovery.Usage) {
	for _, row := range []struct {
		counter interface{ Add(float64) }
		n       float64
	}{
		{m.tokens, float64(u.Tokens)},
		{m.cost, u.CostUSD},
		{m.paidCalls, float64(u.PaidCalls)},
		{m.cacheHits, float64(u.CacheHits)},
	} {
		row.counter.Add(row.n)
	}
}

func (m *Metrics) began(at time.Time, t *task, f fsm.AttemptBegan) {
	t.worker, t.begun = fsm.AttemptID(t.nonce, f.N), at
	kind := startAnswer
	switch {
	case f.Next.Validate && t.course.Retry == nil:
		kind = startValidation
	case t.course.Retry != nil:
		kind = startRetry
	case f.N == 1:
		kind = startFirst
	}
	m.attemptsStarted.WithLabelValues(kind).Inc()
}

func (m *Metrics) moved(at time.Time, t *task, f fsm.Moved) {
	m.transitions.WithLabelValues(f.From.String(), f.To.String(), string(f.On)).Inc()
	if end := projection.AttemptEnd(f); end != "" {
		m.attempts.WithLabelValues(end).Inc()
		if !t.begun.IsZero() {
			m.attemptTime.WithLabelValues(end).Observe(at.Sub(t.begun).Seconds())
		}
	}
	if f.From == fsm.Blocked {
		m.questionClosed(at, t, f.On)
	}
	t.state, t.since, t.until = f.To, at, f.Until
	switch f.To {
	case fsm.Starting:
		m.expect(t)
	case fsm.Running:
		m.WorkerSeen(t.worker)
		if !t.queued.IsZero() {
			m.timeToRunning.Observe(at.Sub(t.queued).Seconds())
			t.queued = time.Time{}
		}
	case fsm.Blocked:
		m.escalations.WithLabelValues(t.reason).Inc()
		if t.answered {
			m.reblocks.WithLabelValues(t.reason).Inc()
		}
		t.asked = time.Time{}
	}
	if !f.To.Info().Live {
		m.seen.Delete(t.worker)
	}
	if projection.Over(f.To) {
		m.finished.WithLabelValues(string(f.On)).Inc()
	}
}

// questionClosed counts a person's answer. It ignores triggers that are not answers.
func (m *Metrics) questionClosed(at time.Time, t *task, on fsm.Trigger) {
	if slices.Contains(projection.Answers, on) {
		if !t.asked.IsZero() { // zero if the answer came before GitHub had confirmed the question
			m.timeToHuman.WithLabelValues(string(on)).Observe(max(at.Sub(t.asked).Seconds(), 0))
		}
		t.answered = t.answered || on == fsm.OnUnblocked || on == fsm.OnSnoozed
	}
	t.asked = time.Time{}
}

// incident records the new state of an incident, and counts new incidents.
func (m *Metrics) incident(at time.Time, f fsm.IncidentChanged) {
	before, is := m.fleet.incidents[f.Incident.Key], f.Incident.Breaker
	if f.Over {
		delete(m.fleet.incidents, f.Incident.Key)
		return
	}
	m.fleet.incidents[f.Incident.Key] = is
	began := !is.Since.IsZero() && !is.Since.Equal(before.Since)
	if began || is.State(at) == recovery.BreakerTold && before.State(at) != recovery.BreakerTold {
		m.incidents.WithLabelValues(reasonLabel(f.Incident.Reason)).Inc()
	}
}
