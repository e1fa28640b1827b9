package metrics

import (
	"maps"
	"slices"
	"time"

	"retake/internal/fsm"
	"retake/internal/recovery"
)

// What becomes of things: values of labels.
const (
	attemptOK        = "ok"
	attemptFailed    = "failed"
	attemptWithdrawn = "withdrawn"

	startFirst      = "first"
	startRetry      = "retry"
	startValidation = "validation"
	startAnswer     = "answer"

	retryPaidOff    = "paid_off"
	retryAlike      = "failed_alike"
	retryOtherwise  = "failed_otherwise"
	retryWithdrawn  = "withdrawn"
	retrySuperseded = "superseded"

	howIncidentOver = "incident_over"
	howBareAnswer   = "bare_answer"

	commandAccepted = "accepted"
	commandRefused  = "refused"

	resultDone    = "done"
	resultGivenUp = "given_up"
)

// answers are the triggers that a person's answer to a question is.
var answers = []fsm.Trigger{fsm.OnUnblocked, fsm.OnSnoozed, fsm.OnWithdrawn, fsm.OnMerged, fsm.OnRejected}

// attemptEnds says how an attempt ended that leaves Stopping.
var attemptEnds = map[fsm.Trigger]string{
	fsm.OnGoneOK: attemptOK, fsm.OnValidate: attemptOK, fsm.OnGoneWithdrawn: attemptWithdrawn,
	fsm.OnRetry: attemptFailed, fsm.OnReclaim: attemptFailed, fsm.OnEscalate: attemptFailed,
}

// overtakers are the triggers by which somebody else decides about a retry that has not begun.
var overtakers = []fsm.Trigger{fsm.OnUnblocked, fsm.OnEscalate, fsm.OnDeliverAgain}

// follow counts a fact; m.mu is held, and there is a fleet.
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
	case fsm.TaskQueued:
		t := &task{nonce: f.Nonce, state: fsm.Queued, since: at, after: len(f.Standing.After) > 0}
		if !t.after {
			t.queued = at
		}
		m.fleet.tasks[fold(f.Task)] = t
	case fsm.TaskRebuilt:
		m.fleet.tasks[fold(f.Rebuilt.Key)] = taskOf(&f.Rebuilt)
	case fsm.WorkDelivered:
		m.deliveries.Inc()
	default:
		m.followTask(at, f)
	}
}

// deciding are the commands by which a person decides more than that there is another attempt.
var deciding = []fsm.Command{fsm.CommandFresh, fsm.CommandFix, fsm.CommandBudget}

func (m *Metrics) commanded(f fsm.CommandTaken) {
	result := commandAccepted
	if f.Refused != "" {
		result = commandRefused
	}
	m.commands.WithLabelValues(known(commands, string(f.Command)), result).Inc()
	if t := m.fleet.tasks[fold(f.Task)]; t != nil && f.Refused == "" && slices.Contains(deciding, f.Command) {
		t.worded = true
	}
}

// followTask counts a fact about one task that there is.
func (m *Metrics) followTask(at time.Time, f fsm.Fact) {
	key := fsm.About(f)
	t := m.fleet.tasks[fold(key)]
	if t == nil {
		return
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
		m.judged(t, f)
	case fsm.HintsGiven:
		t.worded = true
	case fsm.UsageCounted:
		if f.Ended {
			m.used(f.Usage)
		}
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
		delete(m.fleet.tasks, fold(key))
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
		if row.n > 0 && row.n < recovery.MaxCost*recovery.MaxCost {
			row.counter.Add(row.n)
		}
	}
}

func (m *Metrics) began(at time.Time, t *task, f fsm.AttemptBegan) {
	t.startedAnew(f.N, at)
	kind := startAnswer
	switch {
	case f.Next.Validate && t.retry == nil:
		kind = startValidation
	case t.retry != nil:
		kind, t.retry.begun = startRetry, true
	case f.N == 1:
		kind = startFirst
	}
	m.attemptsStarted.WithLabelValues(kind).Inc()
}

// judged counts a verdict: what became of the retry before it, and the one that it grants.
func (m *Metrics) judged(t *task, f fsm.VerdictMade) {
	reason, action := reasonLabel(f.Finding.Reason), actionLabel(f.Verdict.Action)
	m.decisions.WithLabelValues(reason, action).Inc()
	switch r := t.retry; {
	case r == nil:
	case !r.begun:
		m.retried(t, retrySuperseded)
	case r.reason == reason:
		m.retried(t, retryAlike)
	default:
		m.retried(t, retryOtherwise)
	}
	t.reason, t.bare = reason, false
	if f.Verdict.Action.Again() {
		t.retry = &retry{reason: reason, action: action}
	}
}

// retried counts what became of the task's retry, if one was granted.
func (m *Metrics) retried(t *task, outcome string) {
	if r := t.retry; r != nil {
		m.retries.WithLabelValues(r.reason, r.action, outcome).Inc()
		t.retry = nil
	}
}

func (m *Metrics) moved(at time.Time, t *task, f fsm.Moved) {
	m.transitions.WithLabelValues(f.From.String(), f.To.String(), string(f.On)).Inc()
	if f.From == fsm.Stopping {
		m.attemptEnded(at, t, attemptEnds[f.On])
	}
	if f.From == fsm.Blocked {
		m.questionClosed(at, t, f.On)
	}
	if t.retry != nil && !t.retry.begun && f.On != fsm.OnRetry && slices.Contains(overtakers, f.On) {
		m.retried(t, retrySuperseded)
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
		t.asked, t.worded = time.Time{}, false
	}
	if !f.To.Info().Live {
		m.seen.Delete(t.worker)
	}
	if f.To.Info().Final || f.To == fsm.Forgotten {
		m.retried(t, retryWithdrawn)
		m.finished.WithLabelValues(string(f.On)).Inc()
	}
}

func (m *Metrics) attemptEnded(at time.Time, t *task, outcome string) {
	if outcome == "" {
		return
	}
	m.attempts.WithLabelValues(outcome).Inc()
	if !t.begun.IsZero() {
		m.attemptTime.WithLabelValues(outcome).Observe(at.Sub(t.begun).Seconds())
	}
	switch outcome {
	case attemptOK:
		m.retried(t, retryPaidOff)
		if t.bare {
			m.withoutHuman.WithLabelValues(howBareAnswer).Inc()
		}
	case attemptWithdrawn:
		m.retried(t, retryWithdrawn)
	}
	t.bare = false
}

// questionClosed counts how a question ended.
func (m *Metrics) questionClosed(at time.Time, t *task, on fsm.Trigger) {
	if on == fsm.OnIncidentOver {
		m.withoutHuman.WithLabelValues(howIncidentOver).Inc()
	}
	if slices.Contains(answers, on) {
		m.answer(at, t, on)
	}
	t.asked = time.Time{}
}

func (m *Metrics) answer(at time.Time, t *task, on fsm.Trigger) {
	if !t.asked.IsZero() { // otherwise it was answered before GitHub had confirmed it
		m.timeToHuman.WithLabelValues(string(on)).Observe(max(at.Sub(t.asked).Seconds(), 0))
	}
	t.answered = t.answered || on == fsm.OnUnblocked || on == fsm.OnSnoozed
	t.bare = on == fsm.OnUnblocked && !t.worded
}

// incident follows one, and counts those that begin.
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
