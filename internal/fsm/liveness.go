package fsm

import (
	"cmp"
	"fmt"
	"time"

	"retake/internal/recovery"
)

// heartbeatResolution is the resolution of times on the wire. It is added to the TTL, so that a heartbeat of exactly
// that age is still in time.
const heartbeatResolution = time.Millisecond

// watched reports whether the task's worker has deadlines, which apply once its container is confirmed to be running.
func (t *Task) watched() bool {
	return t.State == Running || t.State == Suspect || t.State == Starting && !t.UpAt.IsZero()
}

// deadline returns the earliest deadline of a task, or zero.
func (m *agenda) deadline(t *Task) (at time.Time) {
	if t.watched() {
		at = sooner(at, m.silenceDeadline(t))
		if m.hard.Phase != PhasePaused {
			at = sooner(at, t.watchdogDeadline())
		}
	}
	if t.Waits != nil {
		at = sooner(at, m.afterGrace(t.Until))
	}
	if t.State == Backoff && m.claimCanGoStale(t) {
		at = sooner(at, m.staleAt(t))
	}
	if len(t.Outbox) == 0 && (t.State == Backoff && t.Until.After(m.now) || t.State == Parked || t.State == Blocked) {
		at = sooner(at, t.Until)
	}
	if len(t.Outbox) > 0 && t.soft.inFlight == "" && t.Outbox[0].NotBefore.After(m.now) {
		at = sooner(at, t.Outbox[0].NotBefore)
	}
	return at
}

// silenceDeadline returns the time from which a watched task's worker has been silent for too long.
func (m *agenda) silenceDeadline(t *Task) time.Time {
	switch t.State {
	case Running:
		return m.patiently(t.soft.seenAt.Add(m.cfg.HeartbeatTTL + heartbeatResolution))
	case Suspect:
		return m.patiently(later(t.Until, t.soft.awaitsUntil))
	}
	return m.patiently(t.Until)
}

func (t *Task) watchdogDeadline() time.Time { return t.WatchdogAt.Add(t.soft.slack) }

func (m *agenda) afterGrace(d time.Time) time.Time { return later(d, m.grace) }

// patiently extends a deadline for signs of life by the director's own lateness.
func (m *agenda) patiently(d time.Time) time.Time { return m.afterGrace(d.Add(m.late)) }

// Late returns the director's lateness, as last reported by a DirectorLate.
func (m *agenda) Late() time.Duration { return m.late }

// HeartbeatTTL returns how long a worker may be silent before it is suspect.
func (m *agenda) HeartbeatTTL() time.Duration { return m.cfg.HeartbeatTTL }

// Due reports whether a step at this time would act on a task's deadline. A shell that coalesces signs of life must
// offer them before such a step.
func (m *agenda) Due(at time.Time) bool {
	t, deadline := m.timers.first()
	return t != nil && passed(at, deadline)
}

// passDeadlines handles at most atOnce passed deadlines, earliest first. The others stay due, so NextDeadline is in the
// past and the shell offers another step at once.
func (m *Machine) passDeadlines() {
	if (m.githubClosed || m.hard.Phase == PhaseCooldown) && !m.githubOpensAt().After(m.now) {
		m.githubClosed = false
		if m.hard.Phase == PhaseCooldown {
			m.setPhase(PhaseMonitor, "cooldown over")
		}
		m.revisitAll()
	}
	m.closeProvenCanaries()
	for range atOnce {
		t, at := m.timers.first()
		if t == nil || !passed(m.now, at) {
			return
		}
		m.deadlinePassed(t)
		m.revisit(t)
	}
}

// deadlinePassed handles a task's passed deadline, including the one for heartbeats.
func (m *Machine) deadlinePassed(t *Task) {
	switch {
	case t.State == Backoff && m.claimCanGoStale(t) && passed(m.now, m.staleAt(t)):
		m.claimStale(t)
	case t.State == Parked && len(t.Outbox) == 0 && passed(m.now, t.Until):
		m.move(t, OnSnoozeOver, "", m.now)
	case t.State == Blocked && len(t.Outbox) == 0 && passed(m.now, t.Until):
		m.plan(t, Effect{Kind: DoRemind})
	case t.Waits != nil && passed(m.now, m.afterGrace(t.Until)):
		m.notPlaced(t)
	case !t.watched():
	case m.hard.Phase != PhasePaused && passed(m.now, t.watchdogDeadline()):
		m.stop(t, OnWatchdog, EndingSet{Outcome: OutcomeFailed, Known: recovery.Timeout, Cause: fmt.Sprintf(
			"the attempt ran longer than timeouts.worker_watchdog_seconds (%s)", m.cfg.Watchdog)}, m.cfg.StopGrace)
	case !passed(m.now, m.silenceDeadline(t)):
		// The end of the step handles a due Backoff and a due retry of an effect.
	case t.State == Starting:
		m.stop(t, OnNoHello, EndingSet{
			Outcome: OutcomeFailed, Known: recovery.BusDisconnect, Resource: recovery.Host,
			Cause: fmt.Sprintf(
				"the worker's container is running, but the worker did not say hello within "+
					"timeouts.worker_start_seconds (%s)",
				m.cfg.StartTimeout),
		}, 0)
	case t.State == Running:
		// In any valid configuration, this second wait lasts at least one heartbeat interval.
		m.move(t, OnSilent, "no heartbeat for "+m.cfg.HeartbeatTTL.String()+m.lateness(),
			m.now.Add(m.cfg.HeartbeatTTL/3))
		m.emit(t, Effect{Kind: DoProbe})
	case t.soft.listedAt.Before(t.Since), t.soft.unansweredAt.Before(t.Since):
		// A late director may have missed the worker's signs of life. It kills the worker only if, since the suspicion
		// began, the runtime has listed the container and the worker has not answered a probe.
		t.soft.awaitsUntil = m.now.Add(m.cfg.HeartbeatTTL / 3)
		m.emit(t, Effect{Kind: DoProbe})
	default:
		m.stop(t, OnStillSilent, EndingSet{Outcome: OutcomeFailed, Known: recovery.WorkerLost, Cause: fmt.Sprintf(
			"no heartbeat for %s and no answer to a probe, although its container exists",
			m.now.Sub(later(t.soft.seenAt, m.began)).Round(time.Second))}, 0)
	}
}

// Only the worker of the current attempt gets a welcome.
func (h Hello) step(m *Machine) {
	t, current := m.Worker(h.Worker)
	switch {
	case !current || t.State == Stopping:
		m.fenceUnknown(h.Worker, h.Token)
		return
	case h.Incompatible != "":
		m.emit(t, Effect{Kind: DoRefuse, Token: h.Token, Why: h.Incompatible})
		m.stop(t, OnIncompatible, EndingSet{
			Outcome: OutcomeFailed, Known: recovery.ContractViolation,
			Cause: fmt.Sprintf("the worker speaks protocol %s, which this director does not support", h.Incompatible),
		}, m.cfg.StopGrace)
		return
	}
	m.sawWorker(t, m.now)
	m.move(t, OnHello, "", time.Time{})
	if len(m.facts) == 0 {
		m.record(WorkerAnswered{Worker: h.Worker, Welcome: true})
	}
	m.emit(t, Effect{Kind: DoWelcome, Token: h.Token})
	m.syncPause(t)
}

// ProbeUnanswered means that a worker did not answer a probe in time. The shell offers it only if the probe has
// certainly arrived and every answer so far has been read.
type ProbeUnanswered struct {
	Worker string    `json:"worker"`
	SentAt time.Time `json:"sent_at"`
}

func (ProbeUnanswered) eventKind() string { return "probe_unanswered" }

// An unanswered probe counts only if it was sent after the suspicion began, so the machine stores when it was sent.
func (p ProbeUnanswered) step(m *Machine) {
	if t, current := m.Worker(p.Worker); current {
		t.soft.unansweredAt = later(t.soft.unansweredAt, p.SentAt)
	}
}

func (h WorkerSeen) step(m *Machine) { m.seen(h, m.now) }

// Count all signs before checking deadlines.
func (h WorkersSeen) step(m *Machine) {
	for _, s := range h.Signs {
		m.seen(s.WorkerSeen, s.At)
	}
}

// seen handles a sign of life that arrived at the given time.
func (m *Machine) seen(h WorkerSeen, at time.Time) {
	t, current := m.Worker(h.Worker)
	if !current {
		m.fenceUnknown(h.Worker, 0)
		return
	}
	t.soft.Activity = h.Activity.After(t.soft.Activity)
	// Record paid calls at once, because they would be lost if the worker and the director died together. They are
	// rare, and their cost is recorded with them.
	if used := t.used(); used.PaidCalls > t.Used.PaidCalls {
		m.record(UsageCounted{OfTask: OfTask{t.Key}, Usage: used})
	}
	m.sawWorker(t, at)
	m.syncPause(t)
	m.enforceBudget(t)
}

// After returns a worker's new activity, merged with its earlier one. Usage never decreases, and ErrorID keeps the last
// error.
func (a Activity) After(before Activity) Activity {
	a.Usage = before.Usage.Max(a.Usage)
	a.ErrorID = cmp.Or(a.ErrorID, before.ErrorID)
	return a
}

func (m *Machine) sawWorker(t *Task, at time.Time) {
	t.soft.seenAt = later(t.soft.seenAt, sooner(at, m.now))
	if t.Waits != nil { // the worker sends messages, so its container is running
		m.runs(t)
	}
	if t.soft.upAt.IsZero() {
		t.soft.upAt = m.now
	}
	m.move(t, OnSeenAgain, "", time.Time{})
	m.index(t)
}

// A container that is gone or has exited ends its attempt. Unknown containers are removed.
func (l ContainersListed) step(m *Machine) {
	there := make(map[string]Container, len(l.Containers))
	var unknown []string
	for _, c := range l.Containers {
		there[c.Attempt] = c
		if _, current := m.Worker(c.Attempt); !current {
			unknown = append(unknown, c.Attempt)
		}
	}
	for _, attempt := range m.unknownWorkers.inTurn(unknown) {
		if m.unknownWorker(containerOf + attempt) {
			m.emit(nil, Effect{Kind: DoRemove, Worker: attempt})
		}
	}
	for _, t := range m.hard.Tasks {
		switch c := there[t.AttemptID()]; {
		case !t.watched() && t.Waits == nil, l.TakenAt.Before(t.soft.upAt):
		case t.Waits != nil && c.Pending:
			m.stillWaits(t, c.Waiting)
		case c.Running, c.Pending:
			if t.Waits != nil {
				m.runs(t)
			}
			t.soft.listedAt = l.TakenAt
		default:
			m.stop(t, OnContainerEnded, EndingSet{}, 0)
		}
	}
}

// DirectorLate reports the director's lateness, or zero if it is on time. A late director receives signs of life late,
// and sends answers and probes late, so it extends its workers' deadlines. This event alone never leads to decisions,
// so the shell can still offer pending signs of life after it.
type DirectorLate struct {
	By time.Duration `json:"by"`
}

func (DirectorLate) eventKind() string { return "director_late" }

// If deadlines become later, each is corrected when it reaches the head of the queue. If they become earlier, they may
// already be due, so reindex all tasks now.
func (l DirectorLate) step(m *Machine) {
	shorter := l.By < m.late
	if m.late = l.By; shorter {
		m.revisitAll()
	}
}

// lateness explains an extended deadline, or returns "".
func (m *agenda) lateness() string {
	if m.late == 0 {
		return ""
	}
	return fmt.Sprintf(", and %s longer because the director was late", m.late.Round(time.Millisecond))
}

// Silence does not count against workers while the director could not receive messages.
func (r DirectorResumed) step(m *Machine) {
	for _, t := range m.hard.Tasks {
		if t.State.Info().Live {
			t.soft.slack += r.Gap
		}
	}
	m.grantGrace()
}

// grantGrace gives every worker twice the heartbeat TTL to send a sign of life.
func (m *recorder) grantGrace() {
	m.grace = m.now.Add(2 * m.cfg.HeartbeatTTL)
	m.revisitAll()
}
