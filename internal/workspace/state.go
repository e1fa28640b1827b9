package workspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// StateSchema is the version of STATE.json that is written, and the only one that is read.
const StateSchema = "retake-state/v1"

const (
	stateFile  = "STATE.json"
	stateTemp  = stateFile + ".tmp"
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

// WriteState replaces the task's STATE.json as a whole; the last one to write wins. created_at stays what the present file
// says; without a readable one it is UpdatedAt. A worker may be running in the checkout: what it puts into the way is replaced, never
// followed. ErrNoCheckout: there is nothing to write it into.
func (w *Workspaces) WriteState(nonce string, s State) error {
	op := "write state " + nonce
	dir, err := w.openRetakeDir(op, nonce, true)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	w.stateMu.Lock()
	defer w.stateMu.Unlock()
	s.SchemaVersion, s.UpdatedAt, s.LastSeen.IssueUpdatedAt = StateSchema, millis(s.UpdatedAt), millis(s.LastSeen.IssueUpdatedAt)
	s.CreatedAt = s.UpdatedAt
	if before, ok, err := w.readState(dir, nonce); err == nil && ok && !before.CreatedAt.IsZero() {
		s.CreatedAt = before.CreatedAt
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = replaceFile(dir, append(data, '\n'))
	}
	return stateFailed(op, nonce, err)
}

// ReadState reads the task's STATE.json. One that is missing, malformed, of another schema_version or no regular file is
// the same: ok is false. The log says what was malformed.
func (w *Workspaces) ReadState(nonce string) (s State, ok bool, err error) {
	op := "read state " + nonce
	dir, err := w.openRetakeDir(op, nonce, false)
	if err != nil || dir == nil {
		return State{}, false, err
	}
	defer func() { _ = dir.Close() }()
	w.stateMu.Lock()
	defer w.stateMu.Unlock()
	s, ok, err = w.readState(dir, nonce)
	return s, ok, system(op, err)
}

// openRetakeDir opens the checkout's .retake; from then on it is that very folder, wherever an agent may move it. If it is
// anything else than a folder, a writer makes it anew, and a reader gets nil.
func (w *Workspaces) openRetakeDir(op, nonce string, write bool) (*os.Root, error) {
	if err := checkNonce(op, nonce); err != nil {
		return nil, err
	}
	checkout, err := os.OpenRoot(w.task(nonce, nil).checkout())
	if err != nil {
		return nil, stateFailed(op, nonce, err)
	}
	defer func() { _ = checkout.Close() }()
	if write {
		if err := ensureRetakeDir(checkout); err != nil {
			return nil, stateFailed(op, nonce, err)
		}
	}
	info, err := checkout.Lstat(retakeDir)
	if !write && (errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir()) {
		return nil, nil
	}
	if err != nil {
		return nil, stateFailed(op, nonce, err)
	}
	dir, err := checkout.OpenRoot(retakeDir)
	if err != nil {
		return nil, stateFailed(op, nonce, err)
	}
	if opened, err := dir.Stat("."); err != nil || !os.SameFile(info, opened) {
		_ = dir.Close()
		return nil, stateFailed(op, nonce, errors.Join(errChanged, err))
	}
	return dir, nil
}

// stateFailed: where something is missing, the checkout was removed meanwhile.
func stateFailed(op, nonce string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return noCheckout(op, nonce)
	}
	return system(op, err)
}

var errChanged = errors.New(retakeDir + " changed while it was opened")

func (w *Workspaces) readState(dir *os.Root, nonce string) (State, bool, error) {
	data, err := readFile(dir, stateFile, stateBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, false, nil
	}
	var s State
	if err == nil {
		s, err = parseState(data)
	}
	var bad *malformed
	if errors.As(err, &bad) {
		w.log.Warn("STATE.json is malformed and counts as missing", zap.String("task", nonce), zap.String("reason", bad.why))
		return State{}, false, nil
	}
	return s, err == nil, err
}

// malformed is a file that counts as missing.
type malformed struct{ why string }

// Error is the reason.
func (m *malformed) Error() string { return m.why }

// readFile reads a file that an agent may have replaced by anything. It waits for no pipe's other end.
func readFile(dir *os.Root, name string, most int64) ([]byte, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &malformed{"not a regular file: " + info.Mode().String()}
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, &malformed{"replaced while it was opened"}
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		return nil, &malformed{fmt.Sprintf("more than %d bytes", most)}
	}
	return data, err
}

// replaceFile: a reader sees the old content or the new.
func replaceFile(dir *os.Root, data []byte) error {
	if err := dir.RemoveAll(stateTemp); err != nil { // of a crash, or planted
		return err
	}
	f, err := dir.OpenFile(stateTemp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, dir.Remove(stateTemp))
	}
	if info, err := dir.Lstat(stateFile); err == nil && info.IsDir() {
		if err := dir.RemoveAll(stateFile); err != nil {
			return err
		}
	}
	return dir.Rename(stateTemp, stateFile)
}

func parseState(data []byte) (State, error) {
	var s State
	if err := json.Unmarshal(data, &s); err != nil {
		return State{}, &malformed{err.Error()}
	}
	if s.SchemaVersion != StateSchema {
		return State{}, &malformed{fmt.Sprintf("schema_version %.40q, want %q", s.SchemaVersion, StateSchema)}
	}
	return s, nil
}

func millis(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
