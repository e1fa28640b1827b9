package fsm

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"retake/internal/plainjson"
)

// memory contains the hard state and its indexes.
type memory struct {
	cfg    Config
	hard   hardState
	tasks  map[IssueKey]*Task // by folded key
	nonces map[string]*Task
	slots  slots     // tasks that hold one of the director.max_workers slots
	now    time.Time // time of the last event; never earlier than the last decision
}

// Tasks returns the tasks in order of arrival. Callers must not change them, and may read them only until the next
// step.
func (m *memory) Tasks() []*Task { return slices.Clone(m.hard.Tasks) }

// Live iterates over the tasks that may have a worker.
func (m *memory) Live() iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		for t := range m.slots.all() {
			if t.State.Info().Live && !yield(t) {
				return
			}
		}
	}
}

// Task returns one task, or nil. Like GitHub, it ignores the case of a repository's name.
func (m *memory) Task(k IssueKey) *Task { return m.tasks[k.fold()] }

// Worker returns a worker's task, and reports whether the worker is running the current attempt and is not shut out.
func (m *memory) Worker(id string) (t *Task, current bool) {
	nonce, n, ok := ParseAttemptID(id)
	if !ok {
		return nil, false
	}
	t = m.nonces[nonce]
	return t, t != nil && t.Attempt == n && t.State.Info().Live
}

// Phase returns the director's phase.
func (m *memory) Phase() Phase { return m.hard.Phase }

// Now returns the time of the last event.
func (m *memory) Now() time.Time { return m.now }

// Cursor returns how far the director has read a repository, or "" if the repository has not been read yet.
func (m *memory) Cursor(repo string) string {
	for _, c := range m.hard.Cursors {
		if c.Repo == repo {
			return c.Cursor
		}
	}
	return ""
}

func (m *memory) advance(at time.Time) {
	if at.After(m.now) {
		m.now = at.Round(0).UTC()
	}
}

// Phase is the state of the director as a whole.
type Phase string

// The phases. Changes between them are facts.
const (
	PhaseMonitor  Phase = "MONITOR"
	PhaseCooldown Phase = "COOLDOWN"
	PhasePaused   Phase = "PAUSED"
	PhaseDraining Phase = "DRAINING"
	PhaseShutdown Phase = "SHUTDOWN"
)

// SnapshotVersion is the version of the snapshot format. Restore rejects other versions, and the shell must then replay
// the journal from its start.
const SnapshotVersion = 2

// hardState is the state built from the facts, and a snapshot is its JSON. Lists without omitempty are never nil, so
// that an empty list always has the same JSON.
type hardState struct {
	Version  int       `json:"version"`
	Decided  time.Time `json:"decided"` // when the last fact was decided
	RunID    string    `json:"run_id"`
	Settings *Settings `json:"settings,omitempty"` // settings of the last run
	// LabelNames are the sets of label names used since the task list was last empty, newest last, at most
	// maxLabelNames.
	LabelNames []LabelNames `json:"label_names,omitempty"`
	Phase      Phase        `json:"phase"`
	// Intent is PhasePaused or PhaseDraining if the operator asked for it, regardless of the current phase.
	Intent   Phase     `json:"intent,omitempty"`
	PausedAt time.Time `json:"paused_at,omitzero"` // when the last pause began
	// Aborted explains why the policy aborted the run, until the operator resumes or pauses.
	Aborted string `json:"aborted,omitempty"`
	// StaleClaims are the issues whose claim went stale, newest last, at most maxStale.
	StaleClaims []IssueKey     `json:"stale,omitempty"`
	Commands    []takenCommand `json:"commands,omitempty"` // people's commands; newest last, at most maxCommands
	Heard       []heardComment `json:"heard,omitempty"`    // other comments; newest last, at most maxCommands
	Requests    []takenCommand `json:"requests,omitempty"` // the operator's commands; newest last, at most maxRequests
	Seq         uint64         `json:"seq"`                // number of tasks so far
	Cooldowns   []Cooldown     `json:"cooldowns"`          // at most one for each resource, in order of last use
	// Statements has one entry for each resource and task, in order of last use, at most maxStatements.
	Statements []Statement  `json:"statements,omitempty"`
	Cursors    []RepoCursor `json:"cursors"`
	Served     []Served     `json:"served,omitempty"` // ordered by repository
	Incidents  []Incident   `json:"incidents"`        // at most maxIncidents, in order of last change
	Tasks      []*Task      `json:"tasks"`            // in order of arrival
}

// Snapshot returns the whole hard state. Equal states have equal bytes, whether the machine decided or replayed them.
// Snapshot matches the journal only while the Driver is Idle. Otherwise it contains decisions that the journal may
// still reject.
func (m *memory) Snapshot() ([]byte, error) { return json.Marshal(m.hard) }

// Restore loads a snapshot into a new machine.
func (m *Machine) Restore(data []byte) error {
	s, err := readState(data)
	if err != nil {
		return fmt.Errorf("fsm: read snapshot: %w", err)
	}
	if s.Version != SnapshotVersion {
		return fmt.Errorf("fsm: snapshot has version %d, want %d", s.Version, SnapshotVersion)
	}
	*m = *New(m.cfg)
	m.now = s.Decided
	tasks := s.Tasks
	s.Tasks = m.hard.Tasks
	m.hard = s
	for _, t := range tasks {
		m.add(t)
	}
	return nil
}

var howState = plainjson.TypeFor[hardState]()

// readState reads a snapshot. It falls back to the slower encoding/json if the snapshot does not have the format that
// Snapshot writes.
func readState(data []byte) (hardState, error) {
	var plain plainjson.Reader
	plain.Reset(data)
	var s hardState
	var err error
	if !plain.Value(howState, &s) || !plain.End() {
		s = hardState{}
		err = json.Unmarshal(data, &s)
	}
	s.readEffects()
	return s, err
}

func (s *hardState) readEffects() {
	for _, t := range s.Tasks {
		t.readEffects()
	}
}

// RepoCursor records how far the director has read a repository.
type RepoCursor struct {
	Repo   string `json:"repo"`
	Cursor string `json:"cursor"`
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// sooner returns the earlier of two deadlines. Zero means no deadline.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func passed(now, d time.Time) bool { return !d.After(now) }
