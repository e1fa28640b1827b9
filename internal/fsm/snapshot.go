package fsm

import (
	"encoding/json"
	"fmt"
	"time"

	"retake/internal/plainjson"
)

// SnapshotVersion is the form of the snapshot; another one is refused, and the journal is replayed from its start.
const SnapshotVersion = 2

// hardState is what facts build. A snapshot is its JSON. Lists are never nil, so that one that never had an
// element equals one that has lost all.
type hardState struct {
	Version  int       `json:"version"`
	Decided  time.Time `json:"decided"` // when the last fact was
	RunID    string    `json:"run_id"`
	Settings *Settings `json:"settings,omitempty"` // of the last run
	// since there was no task, newest last, at most maxLabelNames
	LabelNames []LabelNames `json:"label_names,omitempty"`
	Phase      Phase        `json:"phase"`
	// Paused or Draining if the operator wants it so, whatever the phase is meanwhile
	Intent   Phase     `json:"intent,omitempty"`
	PausedAt time.Time `json:"paused_at,omitzero"` // when the last pause began
	// given back without progress, newest last, at most maxStale
	StaleClaims []IssueKey     `json:"stale,omitempty"`
	Commands    []takenCommand `json:"commands,omitempty"` // of people; newest last, at most maxCommands
	Requests    []takenCommand `json:"requests,omitempty"` // of the operator; newest last, at most maxRequests
	Seq         uint64         `json:"seq"`                // tasks so far
	Cooldowns   []Cooldown     `json:"cooldowns"`          // at most one for each resource, in order of last use
	// one for each resource and task, in order of last use, at most maxStatements
	Statements []Statement  `json:"statements,omitempty"`
	Cursors    []RepoCursor `json:"cursors"`
	Incidents  []Incident   `json:"incidents"` // at most maxIncidents, in order of last change
	Tasks      []*Task      `json:"tasks"`     // in order of arrival
}

// Snapshot returns the whole hard state. Equal states give equal bytes, whether they were lived or replayed. It
// matches the journal only while the Driver is Idle; before that, it holds decisions that may still be refused.
func (m *memory) Snapshot() ([]byte, error) { return json.Marshal(m.hard) }

// Restore replaces the state of a new machine by a snapshot's.
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

// readState reads a snapshot: in one pass, if it is written as we write it.
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
