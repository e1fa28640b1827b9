package fsm

import (
	"encoding/json"
	"fmt"
	"time"
)

// snapshotVersion is the form of the snapshot; another one is refused, and the journal is replayed from its start.
const snapshotVersion = 2

// snapshot is the hard state as it is kept.
type snapshot struct {
	Version   int          `json:"version"`
	Decided   time.Time    `json:"decided"` // when the last fact was
	RunID     string       `json:"run_id"`
	Phase     Phase        `json:"phase"`
	Intent    Phase        `json:"intent,omitempty"`
	PausedAt  time.Time    `json:"paused_at,omitzero"`
	Stale     []IssueKey   `json:"stale,omitempty"`
	Seq       uint64       `json:"seq"`
	Cooldowns []Cooldown   `json:"cooldowns"`
	Cursors   []RepoCursor `json:"cursors"`
	Incidents []Incident   `json:"incidents"`
	Tasks     []*Task      `json:"tasks"` // in order of arrival
}

// Snapshot returns the whole hard state. Equal states give equal bytes, whether they were lived or replayed. It says
// what the journal says only while the Driver is Idle; before that, it holds decisions that may still be refused.
func (m *Machine) Snapshot() ([]byte, error) {
	return json.Marshal(snapshot{
		snapshotVersion, m.decided, m.runID, m.phase, m.intent, m.pausedAt, m.stale, m.seq,
		some(m.cooldowns), some(m.cursors), some(m.incidents), some(m.order),
	})
}

// some makes a list that never had an element equal to one that has lost all.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Restore replaces the state of a new machine by a snapshot's.
func (m *Machine) Restore(data []byte) error {
	var s snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("fsm: snapshot: %w", err)
	}
	if s.Version != snapshotVersion {
		return fmt.Errorf("fsm: snapshot has version %d, want %d", s.Version, snapshotVersion)
	}
	*m = *New(m.cfg)
	m.now, m.decided = s.Decided, s.Decided
	m.runID, m.phase, m.intent, m.pausedAt, m.stale = s.RunID, s.Phase, s.Intent, s.PausedAt, s.Stale
	m.seq, m.cooldowns, m.cursors, m.incidents = s.Seq, s.Cooldowns, s.Cursors, s.Incidents
	for _, t := range s.Tasks {
		m.add(t)
	}
	return nil
}
