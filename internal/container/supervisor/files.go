package supervisor

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"retake/internal/safefile"
	"retake/internal/sys/procfs"
)

// Command is the first argument that turns the worker's program into a supervisor. The second one is the directory.
const Command = "supervise"

// Marker is the environment variable that every process of an attempt inherits, unless a process removes it.
const Marker = "RETAKE_ATTEMPT_ID"

// LockFD is the file descriptor of the locked lock file. The supervisor reads the order from stdin, and closes stdout
// after writing its first record.
const LockFD = 3

// Names in the directory.
const (
	LockFile    = "lock"
	StdoutFile  = "stdout"         // newest part; the previous one is StdoutFile + Older
	StderrFile  = "stderr"         // likewise for stderr
	Older       = ".1"             // suffix of the previous part
	LogFile     = "supervisor.log" // the supervisor's own messages
	startedFile = "started.json"
	endedFile   = "ended.json"
)

// Order describes the worker.
type Order struct {
	Argv    []string // Argv[0] is the program's absolute path
	Env     []string // the complete environment
	Workdir string
	Stdin   []byte // the worker's whole standard input
	UID     int    // 0 for the supervisor's user and groups
	GID     int
	Apart   *Apart // nil without isolation
}

// Started is recorded once the worker is running.
type Started struct {
	Boot       string    `json:"boot"`
	Supervisor procfs.ID `json:"supervisor"`
	Worker     procfs.ID `json:"worker"`
}

// Ended records how the worker ended.
type Ended struct {
	ExitCode   int    `json:"exit_code"`             // 128+n if signal n ended the worker
	StartError string `json:"start_error,omitempty"` // why it never ran; ExitCode is 126 or 127, as in a shell
	Clean      bool   `json:"clean"`                 // set once all of the worker's processes have also ended
}

// ReadStarted returns the Started record, or nil if the file does not exist.
func ReadStarted(dir string) (*Started, error) { return read[Started](filepath.Join(dir, startedFile)) }

// ReadEnded returns the Ended record, or nil if the file does not exist.
func ReadEnded(dir string) (*Ended, error) { return read[Ended](filepath.Join(dir, endedFile)) }

// Mend moves damaged records aside.
func Mend(dir string) (damaged []*safefile.Damaged, err error) {
	for name, v := range map[string]any{startedFile: &Started{}, endedFile: &Ended{}} {
		loaded := safefile.Load(filepath.Join(dir, name), func(data []byte) error { return json.Unmarshal(data, v) })
		if d, ok := errors.AsType[*safefile.Damaged](loaded); ok {
			damaged = append(damaged, d)
		} else if !errors.Is(loaded, fs.ErrNotExist) {
			err = errors.Join(err, loaded)
		}
	}
	return damaged, err
}

func read[T any](path string) (*T, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v := new(T)
	return v, json.Unmarshal(data, v)
}

// WriteFile atomically writes v as JSON into the directory.
func WriteFile(dir, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return safefile.Write(filepath.Join(dir, name), 0o600, append(data, '\n'))
}

// Forget removes files left by an earlier supervisor whose worker never ran.
func Forget(dir string) error {
	for _, name := range []string{startedFile, endedFile, StdoutFile, StderrFile, StdoutFile + Older, StderrFile +
		Older, LogFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Lock takes the directory's lock, which belongs to the open file and not to the process. ours is false if a
// supervisor, or a process that starts one, holds it. Closing the file releases the lock unless it was passed on.
func Lock(dir string) (file *os.File, ours bool, err error) {
	file, err = os.OpenFile(filepath.Join(dir, LockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	err = syscall.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK})
	if err == nil {
		return file, true, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		err = nil
	}
	return nil, false, err
}

// Locked reports whether the directory's lock is held, without taking it.
func Locked(dir string) (bool, error) {
	file, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	asked := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &asked); err != nil {
		return false, err
	}
	return asked.Type != syscall.F_UNLCK, nil
}

// partBytes is the maximum size of one part of a stream's file. The supervisor keeps two parts, for people and for the
// 32 KiB in reports.
const partBytes = 1 << 20

// stream appends to a file and rotates it when it is full, keeping the previous part. Write never fails, because a full
// disk must not stop the worker, and a broken pipe would kill it.
type stream struct {
	path string
	file *os.File
	size int
}

func (s *stream) Write(p []byte) (int, error) {
	if s.file != nil && s.size+len(p) > partBytes {
		_ = s.file.Close()
		_ = safefile.Rotate(s.path, 1)
		s.file = nil
	}
	if s.file == nil {
		s.file, _ = os.OpenFile(s.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		s.size = 0
	}
	n, _ := s.file.Write(p) // without a file this output is lost, and the next Write tries again
	s.size += n
	return len(p), nil
}

func (s *stream) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}

// CopyStream writes the kept parts of a stream to w, oldest first.
func CopyStream(w io.Writer, dir, name string) error {
	for _, part := range []string{name + Older, name} {
		file, err := os.Open(filepath.Join(dir, part))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = io.Copy(w, file)
		_ = file.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
