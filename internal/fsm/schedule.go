package fsm

import (
	"slices"
	"time"
)

// dispatch fills free slots: tasks that wait for their next attempt first, then the queue, each in order.
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
func (m *Machine) nextReady() *Task {
	if !m.slotFree() || m.modelOpensAt().After(m.now) {
		return nil
	}
	for _, t := range m.ready.tasks {
		if m.admits(t) { // those before it are of a repository that is kept back
			return t
		}
	}
	return nil
}

func (m *Machine) slotFree() bool {
	return m.hard.Phase == PhaseMonitor && len(m.slots.tasks) < m.cfg.MaxWorkers
}

// admits reports whether no incident keeps the task back.
func (m *Machine) admits(t *Task) bool {
	return !slices.ContainsFunc(m.hard.Incidents, func(i Incident) bool {
		return i.concerns(t) && !i.Breaker.Allow(m.now, len(m.slots.tasks))
	})
}
