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
)

// Options of prctl that the syscall package does not name.
const (
	prSetChildSubreaper = 36
	prSetNoNewPrivs     = 38
)

// streamPatience bounds the wait for the end of the streams when no process is left (5 s): only one that was handed to a
// foreign process is open longer than that.
const streamPatience = 5 * time.Second

// Main is the whole program; args are what follows Command. It returns the exit code: 0 if the worker's end, or that it could
// not be started, is in the folder.
func Main(args []string) int {
	if len(args) != 1 {
		fmt.Fprintf(os.Stderr, "want: %s FOLDER (for the director's use: it starts workers as plain processes)\n", Command)
		return 2
	}
	// A worker is killed when the thread that started it ends, and what a thread may not do its children may not.
	runtime.LockOSThread()
	if err := supervise(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, time.Now().UTC().Format(time.RFC3339), "supervisor:", err)
		return 1
	}
	return 0
}

func supervise(dir string) error {
	syscall.CloseOnExec(LockFD)
	// Not ignored: children would inherit that. Who wants to end an attempt tells the worker, or the director.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGQUIT)
	var order Order
	if err := json.NewDecoder(os.Stdin).Decode(&order); err != nil {
		return fmt.Errorf("no order came: %w", err)
	}
	syscall.Umask(0o022)
	for _, option := range []uintptr{prSetChildSubreaper, prSetNoNewPrivs} {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, option, 1, 0); errno != 0 {
			return fmt.Errorf("prctl %d: %w", option, errno)
		}
	}
	s := &supervisor{dir: dir}
	worker, err := s.start(order)
	if err != nil {
		return errors.Join(err, tellReady())
	}
	if worker == 0 {
		return tellReady()
	}
	if err := errors.Join(s.sayStarted(worker), tellReady()); err != nil {
		// Without its word nobody would find this worker again.
		_ = syscall.Kill(worker, syscall.SIGKILL)
		return errors.Join(err, s.await(worker))
	}
	return s.await(worker)
}

// tellReady lets go of the pipe to the director.
func tellReady() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	return errors.Join(syscall.Dup3(int(null.Fd()), 0, 0), syscall.Dup3(int(null.Fd()), 1, 0))
}

type supervisor struct {
	dir   string
	pipes []*os.File // our ends
	pumps sync.WaitGroup
}

// start starts the worker. 0 without an error: its program cannot be run, and that is written down.
func (s *supervisor) start(o Order) (worker int, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer func() { _ = null.Close() }()
	files := []uintptr{null.Fd()}
	for _, name := range []string{StdoutFile, StderrFile} {
		r, w, err := os.Pipe()
		if err != nil {
			return 0, err
		}
		defer func() { _ = w.Close() }()
		s.pump(r, name)
		files = append(files, w.Fd())
	}
	attr := &syscall.ProcAttr{
		Dir: o.Workdir, Env: o.Env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if o.UID != 0 {
		attr.Sys.Credential = &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID)} // no further groups
	}
	worker, err = syscall.ForkExec(o.Argv[0], o.Argv, attr)
	if code, never := startCodes[err]; never {
		return 0, WriteFile(s.dir, endedFile, Ended{ExitCode: code, StartError: whyNot(o, err), At: time.Now().UTC(), Clean: true})
	}
	return worker, err
}

// startCodes are the shell's exit codes for what cannot be executed and for what is not there. Other errors are the
// machine's state of the moment.
var startCodes = map[error]int{
	syscall.ENOENT: 127, syscall.ENOTDIR: 127, syscall.EACCES: 126, syscall.EPERM: 126, syscall.ENOEXEC: 126,
	syscall.ELOOP: 126, syscall.ENAMETOOLONG: 126, syscall.EISDIR: 126,
}

// whyNot names what is wrong: the system's word for a folder that is out of reach and for a program that is not there is the
// same.
func whyNot(o Order, err error) string {
	if _, statErr := os.Stat(o.Workdir); statErr != nil {
		return fmt.Sprintf("folder to work in: %v", statErr)
	}
	if _, statErr := os.Stat(o.Argv[0]); statErr != nil {
		return fmt.Sprintf("program: %v", statErr)
	}
	if errors.Is(err, syscall.EACCES) && o.UID != 0 {
		for _, path := range []string{o.Workdir, o.Argv[0]} {
			if shut := shutFor(o, path); shut != "" {
				return fmt.Sprintf("%s: user %d may not pass %s (chmod o+x lets others through without letting them look)", path, o.UID, shut)
			}
		}
	}
	return fmt.Sprintf("%s in %s: %v", o.Argv[0], o.Workdir, err)
}

// shutFor returns the first folder above path that the worker's user has no right to pass, by its mode.
func shutFor(o Order, path string) (shut string) {
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
			shut = at
		}
		if at == filepath.Dir(at) {
			return shut
		}
	}
}

func (s *supervisor) pump(r *os.File, name string) {
	s.pipes = append(s.pipes, r)
	s.pumps.Go(func() {
		to := &stream{path: filepath.Join(s.dir, name)}
		defer to.close()
		_, _ = io.Copy(to, r) // until the last writer is gone, or the deadline of await
	})
}

func (s *supervisor) sayStarted(worker int) error {
	boot, err := Boot()
	if err != nil {
		return err
	}
	self, _ := Find(os.Getpid())
	// Not reaped yet: there it is, as a zombie if need be.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", worker))
	if err != nil {
		return err
	}
	p, err := parseStat(worker, stat)
	if err != nil {
		return err
	}
	return WriteFile(s.dir, startedFile, Started{Boot: boot, Supervisor: self.ID, Worker: p.ID, At: time.Now().UTC()})
}

// await waits for the worker's end, writes it down, and ends what the worker has left.
func (s *supervisor) await(worker int) error {
	end := Ended{ExitCode: reap(worker), At: time.Now().UTC()}
	err := WriteFile(s.dir, endedFile, end) // the director is told now, even if what follows takes long
	sweep()
	for _, r := range s.pipes {
		_ = r.SetReadDeadline(time.Now().Add(streamPatience))
	}
	s.pumps.Wait()
	end.Clean = true
	return errors.Join(err, WriteFile(s.dir, endedFile, end))
}

// reap waits for children until the worker was one of them.
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
			return -1 // cannot be: the worker is our child
		}
	}
}

// sweep kills what is left, as the end of a container's first process would, and returns when the kernel says that
// there is no child left. One that the kernel itself holds (disk, network) keeps it waiting.
func sweep() {
	for {
		all, err := list()
		if err == nil {
			for _, p := range descendants(all, func(p Process) bool { return p.PID == os.Getpid() }) {
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
