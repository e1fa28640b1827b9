package fsm

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"retake/internal/plainjson"
)

// memory is the hard state with its indexes.
type memory struct {
	cfg    Config
	hard   hardState
	tasks  map[IssueKey]*Task // by folded key
	nonces map[string]*Task
	slots  slots     // tasks that hold one of director.max_workers
	now    time.Time // of the last event; never behind decided
}

// Tasks lists the tasks in order of arrival. They belong to the machine. Callers may read them until the next
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

// Task returns one task, or nil. Upper and lower case in a repository's name are the same, as on GitHub.
func (m *memory) Task(k IssueKey) *Task { return m.tasks[k.fold()] }

// Worker returns the task of a worker. It also reports whether the worker runs the current attempt and is not shut out.
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

// Cursor returns how far a repository was read, or an empty string if it was never read.
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

// SnapshotVersion is the version of the snapshot's format. Restore refuses any other version, and the journal
// is then replayed from its start.
const SnapshotVersion = 2

// hardState is the state that facts build. A snapshot is its JSON. Lists without omitempty are never nil, so a list
// that was always empty encodes like one that has become empty.
type hardState struct {
	Version  int       `json:"version"`
	Decided  time.Time `json:"decided"` // when the last fact was decided
	RunID    string    `json:"run_id"`
	Settings *Settings `json:"settings,omitempty"` // of the last run
	// sets of names used since the task list was last empty, newest last, at most maxLabelNames
	LabelNames []LabelNames `json:"label_names,omitempty"`
	Phase      Phase        `json:"phase"`
	// Paused or Draining if the operator wants that, regardless of the current phase
	Intent   Phase     `json:"intent,omitempty"`
	PausedAt time.Time `json:"paused_at,omitzero"` // when the last pause began
	// Aborted explains why the policy aborted the run, until the operator resumes or pauses.
	Aborted string `json:"aborted,omitempty"`
	// issues with a claim that went stale, newest last, at most maxStale
	StaleClaims []IssueKey     `json:"stale,omitempty"`
	Commands    []takenCommand `json:"commands,omitempty"` // from people; newest last, at most maxCommands
	Heard       []heardComment `json:"heard,omitempty"`    // without a command; newest last, at most maxCommands
	Requests    []takenCommand `json:"requests,omitempty"` // from the operator; newest last, at most maxRequests
	Seq         uint64         `json:"seq"`                // tasks so far
	Cooldowns   []Cooldown     `json:"cooldowns"`          // at most one for each resource, in order of last use
	// one for each resource and task, in order of last use, at most maxStatements
	Statements []Statement  `json:"statements,omitempty"`
	Cursors    []RepoCursor `json:"cursors"`
	Incidents  []Incident   `json:"incidents"` // at most maxIncidents, in order of last change
	Tasks      []*Task      `json:"tasks"`     // in order of arrival
}

// Snapshot returns the whole hard state. Equal states produce equal bytes, whether decided or replayed. It matches the
// journal only while the Driver is Idle. Before that, it holds decisions that may still be refused.
func (m *memory) Snapshot() ([]byte, error) { return json.Marshal(m.hard) }

// Restore loads a snapshot into a new machine.
func (m *Machine) Restore(data []byte) error {
	s, err := readState(data)
	if err != nil {
		return fmt.Errorf("fsm: snapshot: %w", err)
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

// readState reads a snapshot. A snapshot of this version takes a single pass.
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

// RepoCursor is the position up to which a repository was read.
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
