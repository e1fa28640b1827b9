package metrics

import (
	"slices"
	"time"

	"retake/internal/fsm"
	"retake/internal/projection"
	"retake/internal/recovery"
)

// fleet is the state of a session's tasks, as of the last processed record.
type fleet struct {
	phase     fsm.Phase
	tasks     map[fsm.IssueKey]*task // by key in lower case; see projection.Fold
	cooldowns map[string]time.Time
	incidents map[string]recovery.Breaker
}

// task holds the data that the metrics need about a task.
type task struct {
	nonce  string
	state  fsm.State
	since  time.Time // when the task entered state
	until  time.Time // end of the delay in Backoff
	after  bool      // set while the task waits for other issues
	worker string    // worker of the current or last attempt
	begun  time.Time // start of the current attempt; zero if an earlier process started it
	outbox []planned

	queued time.Time // when the claim could first start; zero once its first worker runs, or if unknown
	reason string    // reason of the last verdict

	course projection.Course

	asked    time.Time // when the open question appeared on GitHub
	answered bool      // an earlier question of the claim was answered
}

// planned is an effect that has not ended yet.
type planned struct {
	id   string
	kind fsm.EffectKind
	at   time.Time
}

// newFleet returns the state of a machine's tasks, cooldowns and incidents.
func newFleet(m *fsm.Machine, now time.Time) *fleet {
	f := &fleet{
		phase: m.Phase(), tasks: map[fsm.IssueKey]*task{}, cooldowns: map[string]time.Time{},
		incidents: map[string]recovery.Breaker{},
	}
	for _, t := range m.Tasks() {
		f.tasks[projection.Fold(t.Key)] = taskOf(t)
	}
	for _, c := range m.Cooldowns() {
		if c.Until.After(now) {
			f.cooldowns[c.Resource] = c.Until
		}
	}
	for _, i := range m.Incidents() {
		f.incidents[i.Key] = i.Breaker
	}
	return f
}

// taskOf returns the state of a task that an earlier process created, or that a rebuild restored.
func taskOf(t *fsm.Task) *task {
	k := &task{
		nonce: t.Nonce, state: t.State, since: t.Since, until: t.Until, after: len(t.Standing.After) > 0,
		answered: t.Answers > 0, begun: t.UpAt, course: projection.CourseOf(t),
	}
	if t.Attempt > 0 {
		k.worker = t.AttemptID()
	}
	if t.State == fsm.Queued && !k.after {
		k.queued = t.Since
	}
	if t.State == fsm.Blocked {
		if k.asked = t.Since; t.LabelsAt.After(k.asked) {
			k.asked = t.LabelsAt
		}
	}
	for _, p := range t.Outbox {
		k.outbox = append(k.outbox, planned{p.Effect.ID, p.Effect.Kind, p.Effect.At})
	}
	if n := len(t.History); n > 0 {
		k.reason = reasonLabel(t.History[n-1].Reason)
	}
	return k
}

// over reports whether the task has left the director's memory.
func (t *task) over() bool { return projection.Over(t.state) && len(t.outbox) == 0 }

func (t *task) plans(kinds ...fsm.EffectKind) bool {
	return slices.ContainsFunc(t.outbox, func(p planned) bool { return slices.Contains(kinds, p.kind) })
}

// holdsSlot reports whether the task holds a slot, according to the machine's rule. A task in Backoff holds a slot
// while the director reads its issue again.
func (t *task) holdsSlot() bool {
	return t.state.Info().Slot || t.state == fsm.Backoff && t.plans(fsm.DoClaim, fsm.DoRecheck)
}

// waits reports whether the task could start an attempt now, and since when.
func (t *task) waits(now time.Time) (since time.Time, ok bool) {
	switch {
	case t.state == fsm.Queued && !t.after:
		if since = t.queued; since.IsZero() {
			since = t.since
		}
		return since, true
	case t.state == fsm.Backoff && len(t.outbox) == 0 && !t.until.After(now):
		if since = t.until; since.Before(t.since) {
			since = t.since
		}
		return since, true
	}
	return time.Time{}, false
}
