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

// StateSchema is the version of STATE.json that is written, and the only one that is read.
const StateSchema = "retake-state/v1"

const (
	stateFile  = "STATE.json"
	stateBytes = 64 << 10 // far above what is written, which is less than 2 KiB
)

// State is what .retake/STATE.json in a checkout says about the task: for an agent or a person who looks in. Nothing is
// decided by it, it may be deleted at any time, and it never holds a secret: no text of an issue, of a report or of the
// environment belongs here. Readers ignore fields that they don't know. Times are UTC, to the millisecond.
type State struct {
	SchemaVersion string        `json:"schema_version"` // WriteState sets it
	CreatedAt     time.Time     `json:"created_at"`     // when the file came to be; WriteState sets it
	UpdatedAt     time.Time     `json:"updated_at"`     // when all of this was so
	LastSeen      LastSeen      `json:"last_seen"`
	Director      DirectorState `json:"director"`
	Worker        *WorkerState  `json:"worker,omitempty"` // nil: no attempt is under way
}

// LastSeen is what the director last saw of the repository and the issue.
type LastSeen struct {
	BaseSHA        string    `json:"base_sha,omitempty"`        // the checkout's base
	MainSHA        string    `json:"main_sha,omitempty"`        // the base branch on the remote
	IssueUpdatedAt time.Time `json:"issue_updated_at,omitzero"` // by GitHub's clock
}

// DirectorState says who wrote this.
type DirectorState struct {
	RunID string `json:"run_id,omitempty"`
	Phase string `json:"phase,omitempty"`
}

// WorkerState is the attempt that is under way.
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

// WriteState replaces the task's STATE.json as a whole; the last one to write wins. created_at stays what the
// present file says; one that is missing or malformed gives way to UpdatedAt. A worker may be running in the
// checkout: what it puts into the way is replaced, never followed. ErrNoCheckout: there is nothing to write it
// into.
func (w *Workspaces) WriteState(nonce string, s State) error {
	op := "write state " + nonce
	err := w.writeState(op, nonce, s)
	if errors.Is(err, fs.ErrNotExist) { // the checkout was removed meanwhile
		return noCheckout(op, nonce)
	}
	return system(op, err)
}

func (w *Workspaces) writeState(op, nonce string, s State) error {
	dir, err := w.openRetakeDir(op, nonce)
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
		w.log.Warn("STATE.json is malformed and counts as missing", zap.String("task", nonce),
			zap.NamedError("reason", err))
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return replaceState(dir, append(data, '\n'))
}

// openRetakeDir opens the checkout's .retake; from then on it is that very folder, wherever an agent may move
// it. Anything else than a folder is replaced.
func (w *Workspaces) openRetakeDir(op, nonce string) (*os.Root, error) {
	if err := checkNonce(op, nonce); err != nil {
		return nil, err
	}
	checkout, err := os.OpenRoot(w.task(op, nonce, nil).checkout())
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
		return nil, errors.Join(errors.New(retakeDir+" changed while it was opened"), err, dir.Close())
	}
	return dir, nil
}

// readState reads a file that an agent may have replaced by anything.
func readState(dir *os.Root) (s State, err error) {
	f, err := dir.OpenFile(stateFile, os.O_RDONLY|syscall.O_NONBLOCK, 0) // never waits for a pipe's other end
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

// replaceState writes STATE.json. The folder that an agent may have put in its place makes way, whatever is in it.
func replaceState(dir *os.Root, data []byte) error {
	if info, err := dir.Lstat(stateFile); err == nil && info.IsDir() {
		if err := dir.Rename(stateFile, fmt.Sprintf("%s.in-the-way-%08x", stateFile, rand.Uint32())); err != nil {
			return err
		}
	}
	return safefile.WriteIn(dir, stateFile, 0o644, data)
}

func millis(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
