package workspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"go.uber.org/zap"

	"retake/internal/safefile"
)

// StateSchema is the only supported version of STATE.json.
const StateSchema = "retake-state/v1"

const (
	stateFile  = "STATE.json"
	stateBytes = 64 << 10 // maximum number of bytes to read; we write less than 2 KiB
)

// State is the content of .retake/STATE.json in a checkout. It informs agents and people about the task. No decision
// depends on the file, and anyone may delete it at any time. It must not contain secrets, so it excludes the text of
// issues, reports and the environment. Readers ignore unknown fields. Times are UTC, to the millisecond.
type State struct {
	SchemaVersion string        `json:"schema_version"` // set by WriteState
	CreatedAt     time.Time     `json:"created_at"`     // creation time of the file; set by WriteState
	UpdatedAt     time.Time     `json:"updated_at"`     // time at which the state was current
	LastSeen      LastSeen      `json:"last_seen"`
	Director      DirectorState `json:"director"`
	Worker        *WorkerState  `json:"worker,omitempty"` // nil if no attempt is running
}

// LastSeen is the director's last view of the repository and the issue.
type LastSeen struct {
	BaseSHA        string    `json:"base_sha,omitempty"`        // base commit of the checkout
	MainSHA        string    `json:"main_sha,omitempty"`        // head of the base branch on the remote
	IssueUpdatedAt time.Time `json:"issue_updated_at,omitzero"` // by GitHub's clock
}

// DirectorState identifies the director that wrote the file.
type DirectorState struct {
	RunID string `json:"run_id,omitempty"`
	Phase string `json:"phase,omitempty"`
}

// WorkerState is the running attempt.
type WorkerState struct {
	WorkerID    string `json:"worker_id"`
	AttemptID   string `json:"attempt_id"`
	Issue       string `json:"issue"`   // owner/repo#n
	Attempt     int    `json:"attempt"` // from 1
	State       string `json:"state,omitempty"`
	Stage       string `json:"stage,omitempty"`
	BranchName  string `json:"branch_name,omitempty"`
	LastErrorID string `json:"last_error_id,omitempty"`
}

// WriteState replaces the task's entire STATE.json, and the last writer wins. It preserves created_at of the existing
// file, or uses UpdatedAt if created_at is missing or malformed. A worker may be running in the checkout, so WriteState
// replaces obstacles that the worker creates, without following links. ErrNoCheckout means that the task has no
// checkout.
func (w *Workspaces) WriteState(nonce string, s State) error {
	op := "write state " + nonce
	err := w.writeState(op, nonce, s)
	if errors.Is(err, fs.ErrNotExist) { // the checkout was removed
		return noCheckout(op, nonce)
	}
	return system(op, err)
}

func (w *Workspaces) writeState(op, nonce string, s State) error {
	t, err := w.tasks.find(op, nonce)
	if err != nil {
		return err
	}
	dir, err := t.openRetakeDir()
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	w.stateMu.Lock()
	defer w.stateMu.Unlock()
	s.SchemaVersion, s.UpdatedAt, s.LastSeen.IssueUpdatedAt = StateSchema, millis(s.UpdatedAt),
		millis(s.LastSeen.IssueUpdatedAt)
	s.CreatedAt = s.UpdatedAt
	switch before, err := readState(dir); {
	case err == nil && !before.CreatedAt.IsZero():
		s.CreatedAt = before.CreatedAt
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		w.log.Warn("replaced malformed STATE.json", zap.String("task", nonce),
			zap.NamedError("reason", err))
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return replaceState(dir, append(data, '\n'))
}

// openRetakeDir opens the checkout's .retake directory, after replacing a file or link of that name. The result refers
// to the same directory even if an agent moves it.
func (t *task) openRetakeDir() (*os.Root, error) {
	checkout, err := os.OpenRoot(t.checkout())
	if err != nil {
		return nil, err
	}
	defer func() { _ = checkout.Close() }()
	if err := ensureRetakeDir(checkout); err != nil {
		return nil, err
	}
	info, err := checkout.Lstat(retakeDir)
	if err != nil {
		return nil, err
	}
	dir, err := checkout.OpenRoot(retakeDir)
	if err != nil {
		return nil, err
	}
	if opened, err := dir.Stat("."); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(errors.New(retakeDir+" changed while it was being opened"), err, dir.Close())
	}
	return dir, nil
}

// readState reads a file that an agent may have replaced.
func readState(dir *os.Root) (s State, err error) {
	f, err := dir.OpenFile(stateFile, os.O_RDONLY|syscall.O_NONBLOCK, 0) // do not wait for the other end of a pipe
	if err != nil {
		return State{}, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return State{}, errors.Join(errors.New("not a regular file"), err)
	}
	data, err := io.ReadAll(io.LimitReader(f, stateBytes))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err == nil && s.SchemaVersion != StateSchema {
		err = fmt.Errorf("schema_version %.40q, want %q", s.SchemaVersion, StateSchema)
	}
	return s, err
}

// replaceState writes STATE.json. If there is a directory with that name, replaceState renames the directory first.
func replaceState(dir *os.Root, data []byte) error {
	if info, err := dir.Lstat(stateFile); err == nil && info.IsDir() {
		if err := dir.Rename(stateFile, fmt.Sprintf("%s.in-the-way-%08x", stateFile, rand.Uint32())); err != nil {
			return err
		}
	}
	return safefile.WriteIn(dir, stateFile, 0o644, data)
}

func millis(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
