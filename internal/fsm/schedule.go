package fsm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
)

// dispatch fills free slots. Tasks that wait for their next attempt come first, then the queue, in the order of before.
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

// nextReady picks the next task to start, or returns nil if every ready task is held back.
func (m *agenda) nextReady() *Task {
	if !m.slotFree() || m.hostOpensAt().After(m.now) || m.mustSearch() {
		return nil
	}
	closed := m.modelOpensAt().After(m.now)
	var next, last *Task
	for _, l := range m.ready.lists {
		t, _ := l.first()
		if l.of.queued && !m.mayClaim() || closed && !l.of.noModel || !m.admits(t) || m.cappedBy(t) != "" {
			continue // all of them wait for finished work, a model or the end of an incident, or a cap is reached
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

// failedLast reports whether an incident waits for a canary and this task was the last to fail. Others are
// tried before it, because a task that fails every time would otherwise hold all of them back.
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

// mayClaim reports whether a queued issue may be claimed. A finished task gives its slot back before it is delivered,
// and GitHub limits how much a fleet may write. Without a bound on finished tasks, a long queue would use up these
// writes for claims.
func (m *agenda) mayClaim() bool {
	return m.finished < max(leastFinished, m.cfg.MaxWorkers) && !m.closed(GitHubClaims).Until.After(m.now)
}

// leastFinished lets a single worker begin its next issue while the previous work is being delivered.
const leastFinished = 2

// awaitsHandIn reports whether the work is finished and its delivery has not failed yet. A delivery that fails may wait
// for minutes, and must not hold back other repositories.
func (t *Task) awaitsHandIn() bool {
	return t.State == Delivering && len(t.Outbox) > 0 && t.Outbox[0].Tries == 0
}

// Owed returns how many claimed tasks still need a comment or a pull request.
func (m *agenda) Owed() int { return m.owes }

func (t *Task) owesContent() bool {
	return t.State == Claiming || t.State.Info().Label == LabelClaimed && t.State != Parked
}

// admits reports whether no incident keeps the task back.
func (m *memory) admits(t *Task) bool {
	return !slices.ContainsFunc(m.hard.Incidents, func(i Incident) bool {
		return i.concerns(t) && !i.Breaker.Allow(m.now, m.slots.n)
	})
}

// Standing holds an issue's priority, caps and dependencies, which decide its turn for a worker.
type Standing struct {
	// Priority counts as that many hours of waiting. A negative priority delays the turn. Every waiting task therefore
	// has its turn eventually.
	Priority int `json:"priority,omitempty"`
	// Capped are the issue's labels for which the configuration has a cap, in lower case and sorted.
	Capped []string `json:"capped,omitempty"`
	// After are open issues that must be closed before work on this one begins, sorted, at most maxAfter.
	After []IssueKey `json:"after,omitempty"`
}

// Bounds of a standing. The first is a year.
const (
	maxPriority = 8760
	// The director reads fewer: a hundred from each of GitHub's two lists, and the issues that a text names.
	maxAfter = 250
)

func (s Standing) equal(o Standing) bool {
	return s.Priority == o.Priority && slices.Equal(s.Capped, o.Capped) && slices.Equal(s.After, o.After)
}

// bounded returns the standing within the bounds of the journal.
func (s Standing) bounded() Standing {
	s.Priority = min(max(s.Priority, -maxPriority), maxPriority)
	s.Capped, s.After = slices.Clip(s.Capped[:min(len(s.Capped), maxAfter)]),
		slices.Clip(s.After[:min(len(s.After), maxAfter)])
	return s
}

// turn converts priority to waiting time. It returns the time at which the queued task would have begun to wait.
func (t *Task) turn() time.Time { return t.Since.Add(-time.Duration(t.Standing.Priority) * time.Hour) }

// stand records an issue's standing.
func (m *recorder) stand(t *Task, s Standing) {
	if s = s.bounded(); !s.equal(t.Standing) {
		m.record(StandingChanged{OfTask{t.Key}, s})
	}
}

// dependencyClosed removes a closed issue from the dependencies of all tasks.
func (m *recorder) dependencyClosed(k IssueKey) {
	for _, t := range m.hard.Tasks {
		if t.State == Queued && slices.ContainsFunc(t.Standing.After, k.same) {
			left := t.Standing
			left.After = slices.DeleteFunc(slices.Clone(left.After), k.same)
			m.stand(t, left)
		}
	}
}

func (k IssueKey) same(o IssueKey) bool { return strings.EqualFold(string(k), string(o)) }

// before reports whether one task that may begin has its turn before another one. Next attempts come before first
// attempts. Then the repository with fewer workers comes first, so that a long queue in one repository does not block
// another one. Then the longer wait decides, with the priority.
func (m *memory) before(t, u *Task) bool {
	if t.ready.rank != u.ready.rank || t.ready.rank == 0 {
		return compareTurns(t, u) < 0
	}
	return cmp.Or(cmp.Compare(m.workersOf(t.Key.Repo()), m.workersOf(u.Key.Repo())), compareTurns(t, u)) < 0
}

func (m *memory) workersOf(repo string) int { return m.slots.byRepo[strings.ToLower(repo)] }

// cappedBy returns the label whose cap keeps the task back, or "".
func (m *memory) cappedBy(t *Task) string {
	for _, label := range t.Standing.Capped {
		most, capped := m.cfg.Caps[label]
		if !capped {
			continue
		}
		n := m.slots.byLabel[label]
		if t.slot { // it does not keep itself back
			n--
		}
		if n >= most {
			return label
		}
	}
	return ""
}

// waitsForIssues names the issues that must be closed first. It also reports a cycle, in which one of them waits for
// this issue.
func (m *agenda) waitsForIssues(t *Task) string {
	after := t.Standing.After
	const named = 3
	text := ""
	for i, k := range after[:min(len(after), named)] {
		if i > 0 {
			text += ", "
		}
		text += string(k)
		if m.comesAfter(k, t.Key, map[IssueKey]bool{}) {
			text += " (which waits for this one: remove one of the two references)"
		}
	}
	if more := len(after) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + " to be closed"
}

// comesAfter reports whether an issue waits for another one, directly or not.
func (m *agenda) comesAfter(k, other IssueKey, seen map[IssueKey]bool) bool {
	t := m.Task(k)
	if t == nil || t.State != Queued || seen[t.Key] {
		return false
	}
	seen[t.Key] = true
	return slices.ContainsFunc(t.Standing.After, func(a IssueKey) bool {
		return a.same(other) || m.comesAfter(a, other, seen)
	})
}
