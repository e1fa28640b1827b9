package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"retake/internal/safefile"
	"retake/internal/worktree"
)

// The worker's directory in the workspace, and its files. Git ignores the directory.
const (
	folderName       = worktree.OwnFolder
	attemptFile      = folderName + "/attempt.json"
	promptFile       = folderName + "/prompt.md"
	questionFile     = folderName + "/question.md"
	syncFile         = folderName + "/sync_required.json"
	failureJSON      = folderName + "/last_failure.json"
	failureText      = folderName + "/last_failure.txt"
	spoolFolder      = folderName + "/spool"
	maxQuestionBytes = 8 << 10
)

// stateDir is .retake in the workspace. The agent owns the workspace and may create any file there. root prevents
// symbolic links from redirecting our writes.
type stateDir struct{ root *os.Root }

func openStateDir(workdir string) (*stateDir, error) {
	root, err := os.OpenRoot(workdir)
	if err != nil {
		return nil, fmt.Errorf("worker: workspace: %w", err)
	}
	return &stateDir{root}, nil
}

func (f *stateDir) close() { _ = f.root.Close() }

func (f *stateDir) make() error {
	if err := f.root.MkdirAll(folderName, 0o755); err != nil {
		return fmt.Errorf("worker: workspace: %w", err)
	}
	return nil
}

// write writes a file atomically and durably.
func (f *stateDir) write(name string, mode os.FileMode, data []byte) error {
	err := f.root.MkdirAll(path.Dir(name), 0o755)
	if err == nil {
		err = safefile.WriteIn(f.root, name, mode, data)
	}
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

func (f *stateDir) writeJSON(name string, mode os.FileMode, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("worker: %s: %w", name, err)
	}
	return f.write(name, mode, append(data, '\n'))
}

// remove removes files. Missing files are not an error.
func (f *stateDir) remove(names ...string) error {
	var errs error
	for _, n := range names {
		if err := f.root.RemoveAll(n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, fmt.Errorf("worker: %w", err))
		}
	}
	return errs
}

// read returns at most limit bytes of a regular file, or nil if the file does not exist. It never blocks on pipes or
// devices.
func (f *stateDir) read(name string, limit int64) ([]byte, error) {
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("worker: %s is not a regular file", name)
	}
	data, err := io.ReadAll(io.LimitReader(file, limit))
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	return data, nil
}
