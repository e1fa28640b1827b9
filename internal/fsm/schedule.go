package fsm

import (
	"cmp"
	"slices"
	"time"

	"retake/internal/recovery"
)

// dispatch fills free slots: tasks that wait for their next attempt first, in order, then the queue, see before.
func (m *Machine) dispatch() {
	for t := m.nextReady(); t != nil; t = m.nextReady() {
		kind := DoRecheck
		if t.State == Queued || t.Resumed {
			kind = DoClaim
		}
		m.plan(t, Effect{Kind: kind})
		m.move(t, OnDispatch, "", time.Time{}) // a task that waited keeps its state until the issue has been read again
		m.makeCanary(t)
	}
}

// nextReady picks the next task, or nil if none may go: here the scheduler chooses.
func (m *agenda) nextReady() *Task {
	if !m.slotFree() || m.hostOpensAt().After(m.now) {
		return nil
	}
	closed := m.modelOpensAt().After(m.now)
	var next, last *Task
	for _, l := range m.ready.lists {
		t, _ := l.first()
		if closed && !l.of.noModel || !m.admits(t) || m.cappedBy(t) != "" {
			continue // all of them wait for a model, are of a repository that is kept back, or a cap is reached
		}
		for t := range l.all() {
			if !m.failedLast(t) {
				next = m.firstOf(next, t)
				break
			}
			if last == nil || compareTurns(t, last) < 0 {
				last = t
			}
		}
	}
	return cmp.Or(next, last)
}

func (m *memory) firstOf(next, t *Task) *Task {
	if next == nil || m.before(t, next) {
		return t
	}
	return next
}

// failedLast reports whether an incident waits for a canary and the task was the last to fail: others try
// before it does, or one task that fails every time would keep them back.
func (m *memory) failedLast(t *Task) bool {
	return slices.ContainsFunc(m.hard.Incidents, func(i Incident) bool {
		n := len(i.Breaker.Strikes)
		return n > 0 && i.Breaker.Strikes[n-1].Task == string(t.Key) && i.concerns(t) &&
			i.Breaker.State(m.now) == recovery.BreakerHalfOpen
	})
}

func (m *memory) slotFree() bool {
	return m.hard.Phase == PhaseMonitor && m.slots.n < m.cfg.MaxWorkers
}

// admits reports whether no incident keeps the task back.
func (m *memory) admits(t *Task) bool {
	return !slices.ContainsFunc(m.hard.Incidents, func(i Incident) bool {
		return i.concerns(t) && !i.Breaker.Allow(m.now, m.slots.n)
	})
}
