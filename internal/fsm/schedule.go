package fsm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"retake/internal/recovery"
)

// dispatch fills free slots. Tasks that wait for another attempt come before the queue. Within each group, the before
// method defines the order.
func (m *Machine) dispatch() {
	for t := m.nextReady(); t != nil; t = m.nextReady() {
		kind := DoRecheck
		if t.State == Queued || t.Resumed {
			kind = DoClaim
		}
		m.plan(t, Effect{Kind: kind})
		m.move(t, OnDispatch, "", time.Time{}) // a waiting task keeps its state until its issue has been reread
		m.makeCanary(t)
	}
}

// nextReady returns the next task to start, or nil if no ready task may start.
func (m *agenda) nextReady() *Task {
	if !m.slotFree() || m.hostOpensAt().After(m.now) || m.mustSearch() {
		return nil
	}
	closed := m.modelOpensAt().After(m.now)
	var next, head, last *Task // head is the first task of the current repository; its lists are adjacent
	repo := ""
	for _, l := range m.ready.lists {
		if l.of.repo != repo {
			next, head, repo = m.firstOf(next, head), nil, l.of.repo
		}
		t, _ := l.first()
		if l.of.queued && !m.mayClaim() || closed && !l.of.noModel || !m.admits(t) || m.cappedBy(t) != "" {
			continue // all tasks in the list wait for the same limit
		}
		for t := range l.all() {
			if !m.failedLast(t) {
				if head == nil || compareTurns(t, head) < 0 {
					head = t
				}
				break
			}
			if last == nil || compareTurns(t, last) < 0 {
				last = t
			}
		}
	}
	return cmp.Or(m.firstOf(next, head), last)
}

func (m *memory) firstOf(next, t *Task) *Task {
	if t != nil && (next == nil || m.before(t, next)) {
		return t
	}
	return next
}

// failedLast reports whether an incident needs a canary and this task was the last to fail in it. The director prefers
// other tasks as the canary, because a task that always fails would block all of them.
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

// mayClaim reports whether another queued issue may be claimed. A finished task releases its slot before delivery, and
// GitHub limits how much a fleet may write. Without a limit on finished tasks, claims from a long queue would use up
// those writes.
func (m *agenda) mayClaim() bool {
	return m.finished < max(leastFinished, m.cfg.MaxWorkers) && !m.closed(GitHubClaims).Until.After(m.now)
}

// leastFinished is the minimum number of finished tasks at which claims may stop. It lets a single worker begin its
// next issue while its previous work is being delivered.
const leastFinished = 2

// awaitsHandIn reports whether the task's work is finished and waits for its first delivery. A failed delivery does not
// count, because its retries must not block other repositories for minutes.
func (t *Task) awaitsHandIn() bool {
	return t.State == Delivering && len(t.Outbox) > 0 && t.Outbox[0].Tries == 0
}

// Owed returns the number of claimed tasks that still need a comment or a pull request.
func (m *agenda) Owed() int { return m.owes }

func (t *Task) owesContent() bool {
	return t.State == Claiming || t.State.Info().Label == LabelClaimed && t.State != Parked
}

// admits reports whether every incident that concerns the task lets it start.
func (m *memory) admits(t *Task) bool {
	return !slices.ContainsFunc(m.hard.Incidents, func(i Incident) bool {
		return i.concerns(t) && !i.Breaker.Allow(m.now, m.slots.n)
	})
}

// Standing contains an issue's priority, caps and dependencies, which determine when it gets a worker.
type Standing struct {
	// Priority counts as this many hours of waiting, and may be negative. Every waiting task therefore gets its turn
	// eventually.
	Priority int `json:"priority,omitempty"`
	// Capped lists the issue's labels that have a cap in the configuration, in lower case and sorted.
	Capped []string `json:"capped,omitempty"`
	// After lists open issues that must be closed before this issue's work begins. The list is sorted and has at most
	// maxAfter entries.
	After []IssueKey `json:"after,omitempty"`
}

// Limits on a standing. maxPriority is a year, in hours.
const (
	maxPriority = 8760
	// The director reads fewer dependencies: a hundred from each of GitHub's two lists, and those named in the text.
	maxAfter = 250
)

func (s Standing) equal(o Standing) bool {
	return s.Priority == o.Priority && slices.Equal(s.Capped, o.Capped) && slices.Equal(s.After, o.After)
}

// bounded returns the standing, clamped to the limits for the journal.
func (s Standing) bounded() Standing {
	s.Priority = min(max(s.Priority, -maxPriority), maxPriority)
	s.Capped, s.After = slices.Clip(s.Capped[:min(len(s.Capped), maxAfter)]),
		slices.Clip(s.After[:min(len(s.After), maxAfter)])
	return s
}

// turn returns the time at which the task was queued, minus an hour for each point of its priority. The task with the
// earliest time is next.
func (t *Task) turn() time.Time { return t.Standing.turn(t.Since) }

func (s Standing) turn(since time.Time) time.Time {
	return since.Add(-time.Duration(s.Priority) * time.Hour)
}

// stand records the standing of the task's issue if it has changed.
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

// before reports whether one ready task precedes another. Tasks that wait for another attempt come first, then tasks of
// the repository with fewer workers. Among equals, the longer wait wins, including the priority. A repository's wait
// restarts with each claim, so that a long queue does not block another repository. The order is not transitive, so
// callers must compare the tasks repository by repository.
func (m *memory) before(t, u *Task) bool {
	if t.ready.rank != u.ready.rank || t.ready.rank == 0 || t.Key.Repo() == u.Key.Repo() {
		return compareTurns(t, u) < 0
	}
	return cmp.Or(cmp.Compare(m.slots.ofRepo(t), m.slots.ofRepo(u)), m.turnOf(t).Compare(m.turnOf(u)),
		compareTurns(t, u)) < 0
}

// ofRepo returns the number of slots held by tasks of the task's repository.
func (s *slots) ofRepo(t *Task) int { return s.byRepo[strings.ToLower(t.Key.Repo())] }

// turnOf is like turn, but serves to compare tasks of different repositories: the wait begins with the repository's
// last claim if that is later.
func (m *memory) turnOf(t *Task) time.Time {
	if i, served := m.hard.served(t.Key.Repo()); served {
		return t.Standing.turn(later(t.Since, m.hard.Served[i].At))
	}
	return t.turn()
}

// Served records when an issue of a repository was last claimed.
type Served struct {
	Repo string    `json:"repo"` // in lower case
	At   time.Time `json:"at"`
}

// served returns the index of a repository in Served, and whether it is there.
func (s *hardState) served(repo string) (int, bool) {
	return slices.BinarySearchFunc(s.Served, strings.ToLower(repo),
		func(s Served, repo string) int { return cmp.Compare(s.Repo, repo) })
}

// serve records a claim. It copies the list, because a fact of a rebuild may share its memory.
func (s *hardState) serve(repo string, at time.Time) {
	i, known := s.served(repo)
	rest := s.Served[i:]
	if known {
		rest = rest[1:]
	}
	s.Served = slices.Concat(s.Served[:i], []Served{{strings.ToLower(repo), at}}, rest)
}

// cappedBy returns the label whose cap prevents the task from starting, or "".
func (m *memory) cappedBy(t *Task) string {
	for _, label := range t.Standing.Capped {
		most, capped := m.cfg.Caps[label]
		if !capped {
			continue
		}
		n := m.slots.byLabel[label]
		if t.slot { // the task itself holds one of the slots
			n--
		}
		if n >= most {
			return label
		}
	}
	return ""
}

// waitsForIssues lists the issues that must be closed first, and points out dependency cycles.
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

// comesAfter reports whether an issue waits for another one, directly or indirectly.
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
