package timeline

import (
	"cmp"
	"slices"
	"time"

	"retake/internal/fsm"
	"retake/internal/projection"
)

// KindMissing is the Kind of an event that marks a gap: earlier events are missing from the book, and possibly from the
// journal. All other events are made from facts.
const KindMissing = "missing"

const missingText = "Earlier events are missing, because the journal could not be read"

// Restore implements projection.Restorer. Normally the facts in the book lead to the state in the snapshot. If part of
// the journal is unreadable, or the journal starts after the task does, the two states may differ. Restore then adopts
// the state in the snapshot, and adds an event that marks the gap.
func (b *Book) Restore(seq uint64, state []byte) error {
	m := fsm.New(b.config)
	if err := m.Restore(state); err != nil {
		return err
	}
	before := b.m.Tasks()
	if m.Phase() != b.m.Phase() {
		b.phased = time.Time{}
	}
	b.m = m
	mark := Event{ID: Place{Seq: seq}, At: m.Now(), Kind: KindMissing, Text: missingText}
	if b.last.Seq < seq {
		b.last = mark.ID
		b.tell(mark)
	}
	for _, t := range before {
		if s := b.tasks[projection.Fold(t.Key)]; s != nil && !s.Over && m.Task(s.Issue) == nil {
			delete(b.numbers.courses, projection.Fold(t.Key))
			mark := mark
			mark.Issue, mark.Over = s.Issue, true
			s.enter(fsm.Forgotten, mark.At)
			s.Means = "the task has ended, but the journal with its outcome could not be read"
			s.endAttempts("")
			b.tellOf(s, mark)
			b.keep(s, false)
		}
	}
	for _, t := range m.Tasks() {
		s := b.task(t.Key)
		if key := projection.Fold(t.Key); b.numbers.courses[key] == nil {
			b.numbers.courses[key] = new(projection.CourseOf(t))
		}
		if !s.stands(t) {
			mark := mark
			mark.Issue, mark.Attempt = t.Key, t.Attempt
			over := s.Over
			s.adopt(t)
			b.tellOf(s, mark)
			b.keep(s, over)
		}
		s.Meters, s.Spent, s.Priority = metersOf(t.Tally), *s.Spent.Max(&t.Spent), t.Standing.Priority
	}
	return nil
}

// stands reports whether the timeline agrees with the task in the snapshot on state and attempt.
func (s *Task) stands(t *fsm.Task) bool {
	return s.State == t.State.String() && s.Since.Equal(t.Since) && s.Attempt == t.Attempt
}

// adopt moves the timeline to the task's current state.
func (s *Task) adopt(t *fsm.Task) {
	s.Title, s.URL, s.Attempt, s.Work = t.Title, t.URL, t.Attempt, workOf(t.Work)
	s.Claims = max(s.Claims, 1)
	if s.Queued.IsZero() {
		s.Queued = t.Since
	}
	s.Asked = nil
	s.enter(t.State, t.Since)
	if n := len(t.History); t.State == fsm.Blocked && n > 0 {
		last := t.History[n-1]
		s.Asked = &Question{
			At: t.Since, Reason: last.Reason, Cause: last.Cause,
			Ask: "see the last comment on the issue", Why: "the journal with the decision could not be read",
		}
	}
	live := ""
	if t.State.Info().Live {
		live = t.AttemptID()
	}
	s.endAttempts(live)
	if live != "" && !slices.ContainsFunc(s.Attempts, func(a Attempt) bool { return a.ID == live }) {
		s.Attempts = append(s.Attempts, Attempt{
			N: t.Attempt, ID: live, Began: cmp.Or(t.UpAt, t.Since),
			Outcome: OutcomeRunning,
		})
	}
}

// endAttempts marks all running attempts as ended with an unknown outcome, except the attempt with the id but.
func (s *Task) endAttempts(but string) {
	for i := range s.Attempts {
		if a := &s.Attempts[i]; a.Outcome == OutcomeRunning && a.ID != but {
			a.Outcome = OutcomeUnknown
		}
	}
}
