package fsm

import (
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
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

// The resources that limits close, beside those of failures.
const (
	GitHubRead  = "github.read"
	GitHubWrite = "github.write"
)

// Cooldown is a deadline before which a resource is not used.
type Cooldown struct {
	Resource string    `json:"resource"`
	Until    time.Time `json:"until"`
	Why      string    `json:"why"`
}

// Cooldowns lists the resources that are closed now.
func (m *Machine) Cooldowns() []Cooldown {
	return slices.DeleteFunc(slices.Clone(m.hard.Cooldowns), func(c Cooldown) bool { return !c.Until.After(m.now) })
}

func (c CooldownReported) step(m *Machine) { m.coolDown(c.Resource, c.Until, c.Why) }

// coolDown closes a resource, if that is news.
func (m *Machine) coolDown(resource string, until time.Time, why string) {
	known := m.opensAt(func(r string) bool { return r == resource })
	if !until.After(later(m.now, known)) {
		return
	}
	m.record(CooldownSet{Resource: resource, Until: until.Round(0).UTC(), Why: why})
	m.githubClosed = m.githubOpensAt().After(m.now)
	if m.hard.Phase == PhaseMonitor && m.githubClosed {
		m.setPhase(PhaseCooldown, resource+": "+why)
	}
}

// githubOpensAt is when GitHub may be used again. A limit on any of its resources stops intake, re-reads and writes.
func (m *Machine) githubOpensAt() time.Time {
	return m.opensAt(func(r string) bool { return strings.HasPrefix(r, "github.") })
}

// modelOpensAt is when the models that the stages use may be used again.
func (m *Machine) modelOpensAt() time.Time {
	return m.opensAt(func(r string) bool {
		return r == recovery.ModelDefault || slices.Contains(m.cfg.Models, r) || len(m.cfg.Models) == 0 && strings.HasPrefix(r, recovery.ModelPrefix)
	})
}

// opensAt is the end of the last cooldown of some resources.
func (m *Machine) opensAt(of func(resource string) bool) (at time.Time) {
	for _, c := range m.hard.Cooldowns {
		if of(c.Resource) {
			at = later(at, c.Until)
		}
	}
	return at
}
