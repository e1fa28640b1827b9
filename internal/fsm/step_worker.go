package fsm

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"retake/internal/recovery"
)

// beyond is the wire's resolution: a heartbeat that is exactly as old as the TTL is not beyond it.
const beyond = time.Millisecond

// due returns the earliest deadline of a task, or zero.
func (m *Machine) due(t *Task) (at time.Time) {
	if t.watched() {
		at = sooner(at, m.silence(t))
		if m.phase != PhasePaused {
			at = sooner(at, t.watchdog())
		}
	}
	if t.State == Backoff && m.stales() {
		at = sooner(at, m.staleAt(t))
	}
	if t.State == Backoff && len(t.Outbox) == 0 && t.Until.After(m.now) {
		at = sooner(at, t.Until)
	}
	if len(t.Outbox) > 0 && t.soft.inFlight == "" && t.Outbox[0].NotBefore.After(m.now) {
		at = sooner(at, t.Outbox[0].NotBefore)
	}
	return at
}

// watched says whether the task's worker has deadlines. Before its container is confirmed to run it has none: what is
// waited for then is the start's outcome.
func (t *Task) watched() bool {
	return t.State == Running || t.State == Suspect || t.State == Starting && !t.UpAt.IsZero()
}

// silence returns the deadline of a watched task that a sign of life would move.
func (m *Machine) silence(t *Task) time.Time {
	switch t.State {
	case Running:
		return m.notBefore(t.soft.heard.Add(m.cfg.HeartbeatTTL + beyond))
	case Suspect:
		return m.notBefore(later(t.Until, t.soft.hold))
	}
	return m.notBefore(t.Until)
}

// stales says whether a claim can go stale now: not while nothing is let begin.
func (m *Machine) stales() bool {
	return m.cfg.ClaimStale > 0 && m.phase == PhaseMonitor &&
		!slices.ContainsFunc(m.incidents, func(i Incident) bool { return stands(i.Breaker, m.now) })
}

// staleAt is when a claim that waits for its next attempt has waited too long: counted from when the attempt was due and
// could have begun. A stated reset, a pause or a director that was away is no lack of progress.
func (m *Machine) staleAt(t *Task) time.Time {
	return later(later(later(t.Since, t.Until), m.calm), m.modelOpens()).Add(m.cfg.ClaimStale)
}

func (t *Task) watchdog() time.Time { return t.WatchdogAt.Add(t.soft.slack) }

func (m *Machine) notBefore(d time.Time) time.Time { return later(d, m.grace) }

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func passed(now, d time.Time) bool { return !d.After(now) }

// deadline decides about the deadline of a task that has passed.
func (m *Machine) deadline(t *Task) {
	switch {
	case t.State == Backoff && m.stales() && passed(m.now, m.staleAt(t)):
		m.goneStale(t)
	case !t.watched():
	case m.phase != PhasePaused && passed(m.now, t.watchdog()):
		m.stop(t, OnWatchdog, EndingSet{Outcome: OutcomeFailed, Known: recovery.Timeout, Cause: fmt.Sprintf(
			"the attempt lived longer than timeouts.worker_watchdog_seconds (%s)", m.cfg.Watchdog)}, m.cfg.StopGrace)
	case !passed(m.now, m.silence(t)):
		// Backoff that is due, or an effect that may be tried again: both happen at the end of the step.
	case t.State == Starting:
		m.stop(t, OnNoHello, EndingSet{Outcome: OutcomeFailed, Known: recovery.BusDisconnect, Cause: fmt.Sprintf(
			"the worker's container runs, but said no hello within timeouts.worker_start_seconds (%s)",
			m.cfg.StartTimeout)}, 0)
	case t.State == Running:
		// The second deadline is one heartbeat interval at the tightest configuration that is allowed.
		m.move(t, OnSilent, fmt.Sprintf("no heartbeat for %s", m.cfg.HeartbeatTTL), m.now.Add(m.cfg.HeartbeatTTL/3))
		m.emit(t, Effect{Kind: DoProbe})
	case t.soft.listed.Before(t.Since):
		// Only the bus has said that the worker is silent. The runtime is the second witness: without a list that
		// is younger than the suspicion, nobody is killed.
		t.soft.hold = m.now.Add(m.cfg.HeartbeatTTL / 3)
		m.emit(t, Effect{Kind: DoProbe})
	default:
		m.stop(t, OnStillSilent, EndingSet{Outcome: OutcomeFailed, Known: recovery.WorkerLost, Cause: fmt.Sprintf(
			"no heartbeat for %s and no answer to a probe, though its container is there",
			m.now.Sub(later(t.soft.heard, m.began)).Round(time.Second))}, 0)
	}
}

// stop decides that the attempt is over, for better or worse. Its container must be confirmed gone before anything
// else happens.
func (m *Machine) stop(t *Task, on Trigger, end EndingSet, grace time.Duration) {
	if _, ok := next(t.State, on); !ok {
		return
	}
	if end.Outcome != "" {
		end.Task = t.Key
		m.record(end)
	}
	m.overtake(t, string(on))
	m.plan(t, Effect{Kind: DoStop, Stop: &StopOrder{Grace: grace, Why: string(on)}})
	m.move(t, on, end.Cause, time.Time{})
}

// hello answers a worker's first message. A worker is welcomed for the current attempt only.
func (m *Machine) hello(h Hello) {
	t, current := m.Worker(h.Worker)
	switch {
	case !current || t.State == Stopping:
		if m.strange(h.Worker) {
			m.emit(nil, Effect{Kind: DoFence, Worker: h.Worker, Token: h.Token})
		}
		return
	case h.Incompatible != "":
		m.emit(t, Effect{Kind: DoRefuse, Token: h.Token, Why: h.Incompatible})
		m.stop(t, OnIncompatible, EndingSet{
			Outcome: OutcomeFailed, Known: recovery.ContractViolation,
			Cause: fmt.Sprintf("the worker speaks protocol %s, which this director does not", h.Incompatible),
		}, m.cfg.StopGrace)
		return
	}
	m.alive(t)
	m.move(t, OnHello, "", time.Time{})
	if len(m.facts) == 0 {
		m.record(WorkerGreeted{Task: t.Key, Worker: h.Worker})
	}
	m.emit(t, Effect{Kind: DoWelcome, Token: h.Token})
	m.agree(t)
}

// heard is a sign of life.
func (m *Machine) heard(h Heard) {
	t, current := m.Worker(h.Worker)
	if !current {
		if m.strange(h.Worker) {
			m.emit(nil, Effect{Kind: DoFence, Worker: h.Worker})
		}
		return
	}
	used := t.soft.Usage
	t.soft.Activity = h.Activity
	t.soft.Usage = most(used, h.Activity.Usage)
	m.paid(t)
	m.alive(t)
	m.agree(t)
	m.afford(t)
}

// most joins two sums of the same attempt: they only rise, and what was reported late is the lower one.
func most(a, b *recovery.Usage) *recovery.Usage {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return &recovery.Usage{
		Tokens: max(a.Tokens, b.Tokens), PaidCalls: max(a.PaidCalls, b.PaidCalls), CacheHits: max(a.CacheHits, b.CacheHits),
		CostUSD: max(a.CostUSD, b.CostUSD),
	}
}

// used is what the current attempt has used so far, as far as anybody has said.
func (t *Task) used() recovery.Usage {
	used := t.Used
	if u := most(&used, t.soft.Usage); u != nil {
		return *u
	}
	return used
}

// paid makes durable what cannot be learnt again if worker and director die together: paid calls. They are few; the cost
// that goes with them is kept, too.
func (m *Machine) paid(t *Task) {
	if used := t.used(); used.PaidCalls > t.Used.PaidCalls {
		m.record(UsageSeen{Task: t.Key, Usage: used})
	}
}

// afford ends an attempt that spends more than its task may: what comes after it could not be stopped any more. A budget
// that is used up exactly lets the attempt finish.
func (m *Machine) afford(t *Task) {
	if !t.watched() {
		return
	}
	if why := m.cfg.Policy.Guards().Overspent(t.Tally.Use(t.used())); why != "" {
		m.stop(t, OnOverspent, EndingSet{Outcome: OutcomeFailed, Known: recovery.QuotaExhausted, Cause: why}, m.cfg.StopGrace)
	}
}

func (m *Machine) alive(t *Task) {
	t.soft.heard = m.now
	if t.soft.up.IsZero() {
		t.soft.up = m.now
	}
	m.move(t, OnHeard, "", time.Time{})
	m.index(t)
}

// fence tells a worker whose attempt is over, or was never ours, to end. There is a fact behind it, so that a director
// that was replaced and does not know it yet cannot fence what its successor began.
func (m *Machine) fence(worker string) {
	m.record(StrangerMet{Worker: worker})
	m.emit(nil, Effect{Kind: DoFence, Worker: worker})
}

// A stranger that goes on to be heard or seen is answered once a minute; so many are remembered.
const (
	strangersEvery = time.Minute
	maxStrangers   = 256
)

// strange records a stranger, and says whether it is to be answered: what comes often is not, every time.
func (m *Machine) strange(worker string) bool {
	if at, ok := m.strangers[worker]; ok && m.now.Before(at.Add(strangersEvery)) {
		return false
	}
	if len(m.strangers) >= maxStrangers {
		clear(m.strangers)
	}
	m.strangers[worker] = m.now
	m.record(StrangerMet{Worker: worker})
	return true
}

// reported takes a report from the stream. The director's own report of an exit waits for the runtime's facts, which
// come with the container's confirmed end.
func (m *Machine) reported(b Reported) {
	t, current := m.Worker(b.Worker)
	switch {
	case !current:
		if t == nil || !t.remembers(b.Worker, b.Report.Ref.ID) {
			m.fence(b.Worker)
		}
	case !b.Report.Exit:
		m.accept(t, b.Report, nil)
		m.afford(t)
	}
}

// accept makes a report count, once. Its finding is what the evidence means, unless the caller knows better.
func (m *Machine) accept(t *Task, r Report, known *recovery.Finding) {
	t.soft.Usage = most(t.soft.Usage, r.Usage) // also of one that is known: this process may not have heard it
	if t.remembers(t.AttemptID(), r.Ref.ID) || !t.room(r.Final) {
		return
	}
	f := ReportAccepted{
		Task: t.Key, Worker: t.AttemptID(), Ref: r.Ref, OK: r.OK, Final: r.Final, Exit: r.Exit, Stage: r.Stage, Provider: r.Evidence.Provider,
	}
	if !r.OK {
		f.Finding = known
		if known == nil {
			finding := m.cfg.Classify(r.Evidence)
			f.Finding, f.Claim = &finding, &r.Evidence.Claim
		}
	}
	m.record(f)
	m.index(t)
	if r.Final && t.State != Stopping {
		m.stop(t, OnReport, EndingSet{}, m.cfg.StopGrace)
	}
}

// listed compares the runtime's list with ours. A container that is gone or ended ends its attempt; one that no task
// knows is removed.
func (m *Machine) listed(l Listed) {
	there := make(map[string]bool, len(l.Containers))
	for _, c := range l.Containers {
		there[c.Attempt] = c.Running
		if _, current := m.Worker(c.Attempt); !current {
			if !m.strange("container " + c.Attempt) {
				continue
			}
			m.emit(nil, Effect{Kind: DoRemove, Worker: c.Attempt})
		}
	}
	for _, t := range m.order {
		if !t.watched() || l.TakenAt.Before(t.soft.up) {
			continue
		}
		if there[t.AttemptID()] {
			t.soft.listed = l.TakenAt
			continue
		}
		m.stop(t, OnContainerEnded, EndingSet{}, 0)
	}
}
