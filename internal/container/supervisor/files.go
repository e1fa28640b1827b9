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

// Command is the first argument that turns the worker's program into a supervisor. The second one is the folder.
const Command = "supervise"

// Marker is the variable that every process of an attempt carries, unless it takes care not to.
const Marker = "RETAKE_ATTEMPT_ID"

// LockFD is where the supervisor gets the open and locked lock file. Its order comes on stdin, and stdout is
// closed when there is something to read in the folder.
const LockFD = 3

// Names in the folder.
const (
	LockFile    = "lock"
	StdoutFile  = "stdout"         // the newest part; what came before is in StdoutFile + Older
	StderrFile  = "stderr"         // the same
	Older       = ".1"             // the part before
	LogFile     = "supervisor.log" // the supervisor's own complaints
	startedFile = "started.json"
	endedFile   = "ended.json"
)

// Order describes the worker.
type Order struct {
	Argv    []string // Argv[0] is the program's absolute path
	Env     []string // all of it
	Workdir string
	Stdin   []byte // all that it reads of its standard input
	UID     int    // 0: the supervisor's own user, group and groups
	GID     int
	Apart   *Apart // nil: it sees what its user may
}

// Started is what is known as soon as the worker runs.
type Started struct {
	Boot       string    `json:"boot"`
	Supervisor procfs.ID `json:"supervisor"`
	Worker     procfs.ID `json:"worker"`
}

// Ended is how the worker ended.
type Ended struct {
	ExitCode   int    `json:"exit_code"`             // 128+n when it died of signal n
	StartError string `json:"start_error,omitempty"` // it never ran; ExitCode is 126 or 127, as in a shell
	Clean      bool   `json:"clean"`                 // and nothing that it started is left
}

// ReadStarted and ReadEnded return nil if there is no such file yet.
func ReadStarted(dir string) (*Started, error) { return read[Started](filepath.Join(dir, startedFile)) }

// ReadEnded is described at ReadStarted.
func ReadEnded(dir string) (*Ended, error) { return read[Ended](filepath.Join(dir, endedFile)) }

// Mend sets aside what cannot be read of them.
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

// WriteFile writes v as JSON into the folder: nobody ever sees half of it.
func WriteFile(dir, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return safefile.Write(filepath.Join(dir, name), 0o600, append(data, '\n'))
}

// Forget removes what an earlier supervisor of the folder, whose worker never ran, has left.
func Forget(dir string) error {
	for _, name := range []string{startedFile, endedFile, StdoutFile, StderrFile, StdoutFile + Older, StderrFile +
		Older, LogFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Lock takes the folder's lock, one of an open file and not of a process. false: a supervisor has it, or
// somebody who is about to start one. Closing the file gives it back, unless it was passed on.
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

// Locked reports whether somebody holds the folder's lock, without taking it.
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

// partBytes bounds one part of a stream's file; two are kept. People read them, and 32 KiB of them are reported.
const partBytes = 1 << 20

// stream appends to a file that begins anew when it is full; the full one is kept until the next is full. A Write never
// fails: the worker must not wait for, or die of, a disk of ours.
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
	n, _ := s.file.Write(p) // without a file: nothing is written, next time it is tried again
	s.size += n
	return len(p), nil
}

func (s *stream) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}

// CopyStream writes what is kept of a stream to w, oldest first.
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
