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
)

// The worker's own folder in the workspace, and the files in it. git ignores the folder.
const (
	folderName       = ".retake"
	attemptFile      = folderName + "/attempt.json"
	questionFile     = folderName + "/question.md"
	syncFile         = folderName + "/sync_required.json"
	failureJSON      = folderName + "/last_failure.json"
	failureText      = folderName + "/last_failure.txt"
	spoolFolder      = folderName + "/spool"
	maxQuestionBytes = 8 << 10
)

// folder is .retake in the workspace. The agent owns the workspace and may put anything there, hence the root: no
// symbolic link leads our writes outside.
type folder struct{ root *os.Root }

func openFolder(workdir string) (*folder, error) {
	root, err := os.OpenRoot(workdir)
	if err != nil {
		return nil, fmt.Errorf("worker: workspace: %w", err)
	}
	return &folder{root}, nil
}

func (f *folder) close() { _ = f.root.Close() }

// make makes the folder itself.
func (f *folder) make() error {
	if err := f.root.MkdirAll(folderName, 0o755); err != nil {
		return fmt.Errorf("worker: workspace: %w", err)
	}
	return nil
}

// write puts a file there atomically and durably: temporary file, fsync, rename, fsync of the directory.
func (f *folder) write(name string, mode os.FileMode, data []byte) error {
	dir := path.Dir(name)
	if err := f.root.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	temp := path.Join(dir, ".writing-"+path.Base(name))
	if err := f.fill(temp, mode, data); err != nil {
		_ = f.root.Remove(temp)
		return fmt.Errorf("worker: %w", err)
	}
	if err := f.root.Rename(temp, name); err != nil {
		_ = f.root.Remove(temp)
		return fmt.Errorf("worker: %w", err)
	}
	return f.syncDir(dir)
}

func (f *folder) fill(name string, mode os.FileMode, data []byte) error {
	_ = f.root.Remove(name) // left by a crash, or put there by the agent
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

func (f *folder) syncDir(dir string) error {
	d, err := f.root.Open(dir)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

func (f *folder) writeJSON(name string, mode os.FileMode, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("worker: %s: %w", name, err)
	}
	return f.write(name, mode, append(data, '\n'))
}

// remove removes files; those that are not there are fine.
func (f *folder) remove(names ...string) error {
	var errs error
	for _, n := range names {
		if err := f.root.RemoveAll(n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, fmt.Errorf("worker: %w", err))
		}
	}
	return errs
}

// read returns at most limit bytes of a regular file; nil if there is none. A pipe or device is not opened for long
// enough to block.
func (f *folder) read(name string, limit int64) ([]byte, error) {
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

// list names the entries of a directory; none if it is not there.
func (f *folder) list(dir string) []string {
	entries, err := fs.ReadDir(f.root.FS(), dir)
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
