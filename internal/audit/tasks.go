package audit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/safefile"
)

// ErrCorrupt reports an unreadable counter, which must not count as zero.
var ErrCorrupt = errors.New("audit: cannot read stats")

// Stats is stats.json: a task's state and usage. A person may edit paid_calls_used while the director is stopped.
type Stats struct {
	SchemaVersion   string            `json:"schema_version"`
	Issue           string            `json:"issue"`
	Title           string            `json:"title"`
	URL             string            `json:"url,omitempty"`
	RunID           string            `json:"run_id,omitempty"`
	State           string            `json:"state"`
	Stage           string            `json:"stage,omitempty"`
	Attempt         int               `json:"attempt"`
	UpdatedAt       wire.Time         `json:"updated_at,omitzero"`
	PaidCallsUsed   int               `json:"paid_calls_used"`
	PaidCallBudget  int               `json:"paid_call_budget"` // 0: unlimited
	StagesCompleted wire.List[string] `json:"stages_completed"`
	Iterations      Iterations        `json:"iterations"`
	Tokens          int64             `json:"tokens"`
	CostUSD         float64           `json:"cost_usd"`
	CostBudgetUSD   float64           `json:"cost_budget_usd"` // 0: unlimited
	Spent           Spent             `json:"spent"`           // total of the claim's attempts
	Merged          bool              `json:"merged,omitempty"`
	Signatures      map[string]Seen   `json:"signatures"`
	DependsOn       wire.List[string] `json:"depends_on"`
	Written         *Written          `json:"written,omitempty"`
}

// Iterations is the iteration budget.
type Iterations struct {
	Used     int `json:"used"`
	Refunded int `json:"refunded"`
	Budget   int `json:"budget"` // 0: unlimited
}

// Seen counts the occurrences of a signature since the task's last success.
type Seen struct {
	Count     int    `json:"count"`
	Class     string `json:"class"` // the reason, in the words of the active policy
	FirstSeen Second `json:"first_seen"`
	LastSeen  Second `json:"last_seen"`
}

// Written is a second copy of the number of paid calls. If a person edits the first one, the two differ.
type Written struct {
	PaidCallsUsed int `json:"paid_calls_used"`
}

// Second is a time written in UTC, without fractions of a second.
type Second struct{ time.Time }

// MarshalJSON writes the time to the second, in UTC.
func (s Second) MarshalJSON() ([]byte, error) {
	return []byte(s.UTC().Format(`"2006-01-02T15:04:05Z"`)), nil
}

// Edited reports whether a person changed the number of paid calls. A file without Written was created by a person.
func (s Stats) Edited() bool { return s.Written == nil || s.Written.PaidCallsUsed != s.PaidCallsUsed }

// maxCalls exceeds the number of paid calls that one task could make, so a higher number is a typo.
const maxCalls = 1_000_000_000

// maxSignatures is the maximum number of signatures in a task's stats. See removes the least recently seen signature.
const maxSignatures = 100

// See records that a failure with the given signature was seen for the nth time.
func (s *Stats) See(signature, class string, n int, at time.Time) {
	if signature == "" {
		return
	}
	if s.Signatures == nil {
		s.Signatures = map[string]Seen{}
	}
	seen, again := s.Signatures[signature]
	if !again {
		seen.FirstSeen = Second{at}
	}
	seen.Count, seen.Class, seen.LastSeen = n, class, Second{at}
	s.Signatures[signature] = seen
	for len(s.Signatures) > maxSignatures {
		oldest := signature
		for name, seen := range s.Signatures {
			if c := seen.LastSeen.Compare(s.Signatures[oldest].LastSeen.Time); c < 0 || c == 0 && name < oldest {
				oldest = name
			}
		}
		delete(s.Signatures, oldest)
	}
}

// ReadStats reads an issue's stats.json. It returns fs.ErrNotExist for a missing file, and ErrCorrupt for an invalid
// one. The caller must not treat either as zero.
func ReadStats(path string) (Stats, error) {
	data, err := readFile(path)
	switch {
	case errors.Is(err, errTooLarge):
		return Stats{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	case err != nil:
		return Stats{}, err // the file itself may be valid: a permission may be missing, or the disk failing
	}
	return parseStats(data)
}

func parseStats(data []byte) (Stats, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // some editors add a byte order mark
	s := Stats{PaidCallsUsed: -1}
	err := json.Unmarshal(data, &s)
	switch syntax, ok := errors.AsType[*json.SyntaxError](err); {
	case ok && syntax.Offset <= int64(len(data)):
		return Stats{}, fmt.Errorf("%w: line %d: %w", ErrCorrupt, 1+bytes.Count(data[:syntax.Offset], []byte("\n")),
			err)
	case err != nil:
		return Stats{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	case s.PaidCallsUsed < 0 || s.PaidCallsUsed > maxCalls:
		return Stats{}, fmt.Errorf("%w: paid_calls_used is missing or not between 0 and %d", ErrCorrupt, maxCalls)
	}
	return s, nil
}

// SetAside renames an unreadable stats.json, so that a person can inspect it.
func SetAside(path string) (to string, err error) {
	to = path + ".corrupt"
	return to, safefile.Rename(path, to)
}

// LastFailure is the content of last_failure.json: the last failure of a task, and the verdict on it. The file always
// contains all fields, even if they are empty.
type LastFailure struct {
	SchemaVersion       string            `json:"schema_version"`
	Task                string            `json:"task"` // owner/repo#n
	Title               string            `json:"title"`
	ErrorType           string            `json:"error_type"` // the reason
	Class               string            `json:"class"`
	Message             string            `json:"message"`
	Stack               string            `json:"stack"` // the end of the output
	Timestamp           wire.Time         `json:"timestamp"`
	Phase               string            `json:"phase"`     // the task's state
	Milestone           string            `json:"milestone"` // the stage
	BlockedDependencies wire.List[string] `json:"blocked_dependencies"`
	Attempt             int               `json:"attempt"`
	AttemptID           string            `json:"attempt_id"`
	ErrorID             string            `json:"error_id"`
	ExitCode            *int              `json:"exit_code"`
	Signal              string            `json:"signal"`
	Signature           string            `json:"signature"`
	Count               int               `json:"count"` // occurrences of the signature, including this one
	Rule                string            `json:"rule"`
	Retryable           bool              `json:"retryable"`
	Action              string            `json:"action"`
	Why                 string            `json:"why"`
	Row                 string            `json:"row"`
	Veto                string            `json:"veto"` // the guard that forbade a retry
	Fatal               bool              `json:"fatal"`
	Ask                 string            `json:"ask"` // question for a person
}

// maxStack limits the output in last_failure.json.
const maxStack = 16 << 10

// NewLastFailure combines the data of a task's failure. message is the worker's message, or "" to use the cause. tail
// is the end of the task's output. The caller adds AttemptID, ExitCode, Signal and BlockedDependencies.
func NewLastFailure(s Stats, f *Failure, message, tail string) *LastFailure {
	return &LastFailure{
		SchemaVersion: failureSchema, Task: s.Issue, Title: s.Title, Timestamp: s.UpdatedAt, Phase: s.State,
		Milestone: s.Stage,
		Attempt:   s.Attempt, Count: max(s.Signatures[f.Signature].Count, 1), Veto: f.Veto, Fatal: f.Fatal,
		Ask:       cmp.Or(f.Ask, about(f.Reason).Ask()),
		ErrorType: f.Reason, Class: f.Class, Message: cmp.Or(message, f.Cause), Stack: tail, ErrorID: f.ErrorID,
		Signature: f.Signature,
		Rule:      f.Rule, Retryable: f.Retryable, Action: f.Action, Why: f.Why, Row: f.Row,
	}
}

// Task writes a task's state: stats.json, and last_failure.json unless last is nil. The caller must not change the
// arguments afterwards.
func (w *Writer) Task(s Stats, last *LastFailure) {
	cost := 0
	if last != nil {
		cost = len(last.Stack)
	}
	w.put(stateDir, cost, func() (string, error) { return w.writeTask(s, last) })
}

func (w *Writer) writeTask(s Stats, last *LastFailure) (path string, err error) {
	path, err = StatsPath(w.dir, s.Issue)
	if err != nil {
		return s.Issue, err
	}
	if s, err = cleaned(s, w.o.Redact); err != nil {
		return path, err
	}
	s.SchemaVersion, s.Written = statsSchema, &Written{s.PaidCallsUsed}
	if s.Signatures == nil {
		s.Signatures = map[string]Seen{}
	}
	if err := w.disk.replaceJSON(path, s); err != nil || last == nil {
		return path, err
	}
	l, err := cleaned(*last, w.o.Redact)
	if err != nil {
		return path, err
	}
	l.Stack = wire.CutTail(l.Stack, maxStack)
	path = filepath.Join(filepath.Dir(path), failureFile)
	return path, w.disk.replaceJSON(path, l)
}

// pruneState removes the state of tasks that ended long ago.
func (w *Writer) pruneState() error {
	if w.o.Keep.Age < 0 {
		return nil
	}
	root := filepath.Join(w.dir, stateDir)
	folders, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, folder := range folders {
		s, readErr := ReadStats(filepath.Join(root, folder.Name(), statsFile))
		if readErr != nil || !claimOver(s.State) || w.o.Now().Sub(s.UpdatedAt.Time) < w.o.Keep.Age {
			continue
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(root, folder.Name())),
			os.RemoveAll(filepath.Join(w.dir, outputsDir, folder.Name())))
	}
	return err
}

// stateBlocked is the state of a task waiting for a person.
const stateBlocked = "Blocked"

// claimOver reports whether a task in this state has ended. A blocked task has not ended, because it is waiting for a
// person.
func claimOver(state string) bool {
	return slices.Contains([]string{"Done", "Released", "Forgotten"}, state)
}
