package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"retake/internal/sys/procfs"
)

// streamLimit is the maximum wait for the streams to end after the last process has ended. A stream stays open longer
// only if it was passed to an unrelated process.
const streamLimit = 5 * time.Second

// Main runs a supervisor. args are the arguments after Command. The exit code is 0 if the worker's end or start error
// is recorded.
func Main(args []string) int {
	if len(args) != 1 {
		fmt.Fprintf(os.Stderr, "usage: worker %s DIRECTORY (only for the director, which starts workers as plain "+
			"processes)\n",
			Command)
		return 2
	}
	// The kernel kills the worker when the thread that started it ends, and the worker inherits the thread's
	// restrictions.
	runtime.LockOSThread()
	if err := supervise(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, time.Now().UTC().Format(time.RFC3339), "supervisor:", err)
		return 1
	}
	return 0
}

func supervise(dir string) error {
	syscall.CloseOnExec(LockFD)
	// Catch these signals instead of ignoring them, because a child inherits ignored signals. Only the
	// worker or the director ends an attempt.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE,
		syscall.SIGQUIT)
	// The order contains secrets, and without root the worker runs as the same user.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl PR_SET_DUMPABLE: %w", err)
	}
	var order Order
	if err := json.NewDecoder(os.Stdin).Decode(&order); err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	syscall.Umask(0o022)
	for _, option := range []int{unix.PR_SET_CHILD_SUBREAPER, unix.PR_SET_NO_NEW_PRIVS} {
		if err := unix.Prctl(option, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("prctl %d: %w", option, err)
		}
	}
	s := &supervisor{dir: dir}
	worker, err := s.start(order)
	if err != nil {
		return errors.Join(err, signalReady())
	}
	if worker == 0 {
		return signalReady()
	}
	if err := errors.Join(s.recordStarted(worker), signalReady()); err != nil {
		// Without its record, a worker could not be found again.
		_ = syscall.Kill(worker, syscall.SIGKILL)
		return errors.Join(err, s.await(worker))
	}
	return s.await(worker)
}

// signalReady closes the pipe to the director.
func signalReady() error { return os.Stdout.Close() }

type supervisor struct {
	dir    string
	pipes  []*os.File // read ends of the worker's stdout and stderr
	copies sync.WaitGroup
}

// start starts the worker. If the program cannot run, start records the reason and returns 0 without an error.
func (s *supervisor) start(o Order) (worker int, err error) {
	in, feed, err := inputOf(o)
	if err != nil {
		return 0, err
	}
	defer func() { _ = in.Close() }()
	files := []uintptr{in.Fd()}
	for _, name := range []string{StdoutFile, StderrFile} {
		r, w, err := os.Pipe()
		if err != nil {
			return 0, err
		}
		defer func() { _ = w.Close() }()
		s.copyStream(r, name)
		files = append(files, w.Fd())
	}
	attr := &syscall.ProcAttr{
		Dir: o.Workdir, Env: o.Env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if o.UID != 0 {
		attr.Sys.Credential = &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID)} // no supplementary groups
	}
	if o.Apart != nil {
		worker, err = startApart(o, files)
	} else {
		worker, err = syscall.ForkExec(o.Argv[0], o.Argv, attr)
	}
	if code, never := startCodes[err]; never {
		return 0, errors.Join(feed(false),
			WriteFile(s.dir, endedFile, Ended{ExitCode: code, StartError: startError(o, err), Clean: true}))
	}
	return worker, errors.Join(err, feed(err == nil))
}

// inputOf returns the worker's standard input, and a function that writes and closes it once the worker runs. Writing
// happens in the background, because the worker may read slowly or never.
func inputOf(o Order) (in *os.File, feed func(runs bool) error, err error) {
	if len(o.Stdin) == 0 {
		in, err = os.Open(os.DevNull)
		return in, func(bool) error { return nil }, err
	}
	in, to, err := os.Pipe()
	return in, func(runs bool) error {
		if !runs {
			return to.Close()
		}
		go func() {
			_, _ = to.Write(o.Stdin) // the worker may already have ended
			_ = to.Close()
			clear(o.Stdin)
		}()
		return nil
	}, err
}

// startCodes maps permanent start errors to the shell's exit codes: 127 if the program is missing, 126 if it cannot be
// executed. All other errors are transient.
var startCodes = map[error]int{
	syscall.ENOENT: 127, syscall.ENOTDIR: 127, syscall.EACCES: 126, syscall.EPERM: 126, syscall.ENOEXEC: 126,
	syscall.ELOOP: 126, syscall.ENAMETOOLONG: 126, syscall.EISDIR: 126,
}

// startError identifies the path at fault, because the system reports the same error for an inaccessible directory and
// a missing program.
func startError(o Order, err error) string {
	if _, statErr := os.Stat(o.Workdir); statErr != nil {
		return fmt.Sprintf("working directory: %v", statErr)
	}
	if _, statErr := os.Stat(o.Argv[0]); statErr != nil {
		return fmt.Sprintf("program: %v", statErr)
	}
	if errors.Is(err, syscall.EACCES) && o.UID != 0 {
		for _, path := range []string{o.Workdir, o.Argv[0]} {
			if closed := closedFolder(o, path); closed != "" {
				return fmt.Sprintf("%s: user %d cannot enter %s (chmod o+x allows this without allowing the user to "+
					"list it)", path, o.UID, closed)
			}
		}
	}
	return fmt.Sprintf("%s in %s: %v", o.Argv[0], o.Workdir, err)
}

// closedFolder returns the topmost parent of path whose mode prevents the worker's user from entering it.
func closedFolder(o Order, path string) (closed string) {
	for at := filepath.Dir(path); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return at
		}
		right := os.FileMode(0o001)
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) == o.UID {
			right = 0o100
		} else if ok && int(owner.Gid) == o.GID {
			right = 0o010
		}
		if info.Mode()&right == 0 {
			closed = at
		}
		if at == filepath.Dir(at) {
			return closed
		}
	}
}

func (s *supervisor) copyStream(r *os.File, name string) {
	s.pipes = append(s.pipes, r)
	s.copies.Go(func() {
		to := &stream{path: filepath.Join(s.dir, name)}
		defer to.close()
		_, _ = io.Copy(to, r) // until the last writer closes it, or until await's deadline
	})
}

func (s *supervisor) recordStarted(worker int) error {
	boot, err := procfs.Boot()
	if err != nil {
		return err
	}
	self, _ := procfs.Find(os.Getpid())
	child, _ := procfs.Find(worker) // not reaped yet, so it exists, at least as a zombie
	if child.PID != worker {
		return fmt.Errorf("supervisor: /proc does not list the worker, process %d", worker)
	}
	return WriteFile(s.dir, startedFile, Started{Boot: boot, Supervisor: self.ID, Worker: child.ID})
}

// await waits for the worker, records its end, and kills its leftover processes.
func (s *supervisor) await(worker int) error {
	end := Ended{ExitCode: reap(worker)}
	err := WriteFile(s.dir, endedFile, end) // record the end before the sweep, which may take a while
	sweep()
	for _, r := range s.pipes {
		_ = r.SetReadDeadline(time.Now().Add(streamLimit))
	}
	s.copies.Wait()
	end.Clean = true
	return errors.Join(err, WriteFile(s.dir, endedFile, end))
}

// reap waits for children until the worker has ended.
func reap(worker int) (exitCode int) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case pid == worker && status.Signaled():
			return 128 + int(status.Signal())
		case pid == worker:
			return status.ExitStatus()
		case err != nil && !errors.Is(err, syscall.EINTR):
			return -1 // cannot happen, since the worker is our child
		}
	}
}

// sweep kills leftover processes, as the kernel does in a container when the first process ends. It returns once the
// last child has ended, which a process blocked in the kernel (disk, network) can delay.
func sweep() {
	for {
		all, err := procfs.List()
		if err == nil {
			for _, p := range procfs.Descendants(all, func(p procfs.Process) bool { return p.PID == os.Getpid() }) {
				_, _ = p.Signal(syscall.SIGKILL)
			}
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if errors.Is(err, syscall.ECHILD) {
				return
			}
			if pid <= 0 && !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}
