package audit

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/wire"
	"retake/internal/recovery"
)

// LastFailure is last_failure.json: all that the founding document wants to know of a failed task, and what was decided.
// No field is ever left out, so that a reader need not guess.
type LastFailure struct {
	SchemaVersion       string         `json:"schema_version"`
	Task                string         `json:"task"` // owner/repo#n
	Title               string         `json:"title"`
	ErrorType           string         `json:"error_type"` // the reason
	Class               string         `json:"class"`
	Message             string         `json:"message"`
	Stack               string         `json:"stack"` // the end of the output
	Timestamp           wire.Time      `json:"timestamp"`
	Phase               string         `json:"phase"`     // the task's state
	Milestone           string         `json:"milestone"` // the stage
	BlockedDependencies []string       `json:"blocked_dependencies"`
	Attempt             int            `json:"attempt"`
	AttemptID           string         `json:"attempt_id"`
	ErrorID             string         `json:"error_id"`
	ExitCode            *int           `json:"exit_code"`
	Signal              string         `json:"signal"`
	Signature           string         `json:"signature"`
	Count               int            `json:"count"` // of the signature, this one included
	Rule                string         `json:"rule"`
	Retryable           bool           `json:"retryable"`
	Action              string         `json:"action"`
	Why                 string         `json:"why"`
	Row                 string         `json:"row"`
	Veto                string         `json:"veto"` // the guard that forbade a retry
	Fatal               bool           `json:"fatal"`
	Ask                 string         `json:"ask"` // what a person is asked
	Context             map[string]any `json:"context"`
}

// mostStack is what last_failure.json keeps of the output.
const mostStack = 16 << 10

// NewLastFailure puts a failure down. Message is the worker's line (the cause, if there is none), tail the end of its output.
func NewLastFailure(f *Failure, message, tail string) *LastFailure {
	if message == "" {
		message = f.Cause
	}
	about, _ := recovery.Describe(recovery.Reason(f.Reason))
	return &LastFailure{
		Veto: f.Veto, Fatal: f.Fatal, Ask: cmp.Or(f.Ask, about.Ask),
		ErrorType: f.Reason, Class: f.Class, Message: message, Stack: tail, ErrorID: f.ErrorID, Signature: f.Signature,
		Rule: f.Rule, Retryable: f.Retryable, Action: f.Action, Why: f.Why, Row: f.Row,
	}
}

// filled completes what the caller left to the task and its stats.
func (l LastFailure) filled(t Task, s Stats) LastFailure {
	l.SchemaVersion, l.Task, l.Title = FailureSchema, t.Issue, t.Title
	l.Phase, l.Milestone, l.BlockedDependencies = t.State, t.Stage, notNil(l.BlockedDependencies)
	if l.Timestamp.IsZero() {
		l.Timestamp = wire.At(t.At)
	}
	if l.Attempt == 0 {
		l.Attempt = t.Attempt
	}
	if l.Count == 0 {
		l.Count = max(s.Signatures[l.Signature].Count, 1)
	}
	l.Context = RedactContext(l.Context)
	return l
}

// Task writes where a task stands: stats.json, and last_failure.json if something failed.
func (w *Writer) Task(t Task) {
	cost := 0
	if t.LastFailure != nil {
		cost = len(t.LastFailure.Stack)
	}
	w.put(stateDir, cost, func() (string, error) { return w.writeTask(t) })
}

func (w *Writer) writeTask(t Task) (path string, err error) {
	path, err = StatsPath(w.dir, t.Issue)
	if err != nil {
		return t.Issue, err
	}
	w.stateMu.Lock()
	defer w.stateMu.Unlock()
	unlock, err := lockDir(filepath.Dir(path))
	if err != nil {
		return path, err
	}
	defer unlock()
	before, err := ReadStats(path)
	found := err == nil
	switch {
	case errors.Is(err, ErrCorrupt):
		w.o.Log.Error("stats.json cannot be read; the director's own count goes on", zap.String("issue", t.Issue), zap.Error(err))
	case err != nil && !errors.Is(err, ErrNoStats):
		return path, err
	}
	text := t.LastFailure
	t.LastFailure = nil
	t = cleaned(t, w.o.Redact)
	stats := before.with(t, found)
	if err := w.disk.replaceJSON(path, stats); err != nil || text == nil {
		return path, err
	}
	last := cleaned(text.filled(t, stats), w.o.Redact)
	last.Stack = wire.CutTail(last.Stack, mostStack)
	path = filepath.Join(filepath.Dir(path), failureFile)
	return path, w.disk.replaceJSON(path, last)
}

// settled is how long a file that cannot be read must have been left alone before it counts as corrupt: an editor may
// be in the middle of saving it.
const settled = 2 * time.Second

// Edits returns what people wrote into stats.json files and nobody took yet. It reads only files that changed since the
// last call, so that it is fit for every tick. Corrupt files are kept aside and logged.
func (w *Writer) Edits() (edits []Edit) {
	if w == nil {
		return nil
	}
	w.stateMu.Lock()
	defer w.stateMu.Unlock()
	root := filepath.Join(w.dir, stateDir)
	folders, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.o.Log.Warn("stats.json files cannot be looked at", zap.Error(err))
	}
	for _, folder := range folders {
		path := filepath.Join(root, folder.Name(), statsFile)
		info, err := os.Stat(path)
		if err != nil || w.checked[path].Equal(info.ModTime()) {
			continue
		}
		s, err := peekStats(path)
		if errors.Is(err, ErrCorrupt) {
			if w.o.Now().Sub(info.ModTime()) >= settled {
				w.o.Log.Error("stats.json cannot be read; the director's own count goes on", zap.Error(keepAside(path, err)))
			}
			continue
		}
		if err != nil {
			continue // it is tried again at the next tick
		}
		e, edited := s.Edit()
		if !edited {
			w.checked[path] = info.ModTime()
			continue
		}
		if e.Issue == "" { // a person wrote the file from nothing
			e.Issue = issueOf(folder.Name())
		}
		e.Path, e.At = path, info.ModTime()
		edits = append(edits, e)
	}
	return edits
}

// TakeEdit says that an edit counts: call it when the decision that honours it is durable. A person who has written
// another number meanwhile is heard at the next Edits. It writes at once, because what is not taken would be honoured again.
func (w *Writer) TakeEdit(e Edit) error {
	if w == nil {
		return nil
	}
	w.stateMu.Lock()
	defer w.stateMu.Unlock()
	unlock, err := lockDir(filepath.Dir(e.Path))
	if err != nil {
		return err
	}
	defer unlock()
	s, err := ReadStats(e.Path)
	if err != nil {
		return err
	}
	return w.disk.replaceJSON(e.Path, s.seal(e.PaidCallsUsed))
}

// pruneState removes what is known of tasks that were over long ago.
func (w *Writer) pruneState() error {
	if w.o.Keep.Age < 0 {
		return nil
	}
	w.stateMu.Lock()
	defer w.stateMu.Unlock()
	root := filepath.Join(w.dir, stateDir)
	folders, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, folder := range folders {
		path := filepath.Join(root, folder.Name(), statsFile)
		s, readErr := peekStats(path)
		if readErr != nil || !claimOver(s.State) || w.o.Now().Sub(s.UpdatedAt.Time) < w.o.Keep.Age {
			continue
		}
		delete(w.checked, path)
		err = errors.Join(err, os.RemoveAll(filepath.Dir(path)), os.RemoveAll(filepath.Join(w.dir, outputsDir, folder.Name())))
	}
	return err
}

// stateBlocked is a task's that waits for a person.
const stateBlocked = "Blocked"

// claimOver: nothing of a task in such a state is to come. A blocked one still waits for a person.
func claimOver(state string) bool {
	return slices.Contains([]string{"Done", "Released", "Forgotten"}, state)
}
