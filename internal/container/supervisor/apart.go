package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ApartCommand is the first argument that makes the worker's program isolate a worker and then become it.
const ApartCommand = "apart"

// Apart describes the parts of this machine that a worker cannot see. The worker always gets a separate process
// namespace, so its processes end with it.
type Apart struct {
	Hide []string // directories and files; missing ones are skipped
	Show []string // exceptions within Hide, which stay visible
}

// File descriptors that the program gets from the supervisor in addition to the worker's streams.
const (
	apartOrderFD  = 3
	apartResultFD = 4 // closed without data when the worker runs
)

// apartFlags are the namespaces of a worker.
const apartFlags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC

// failed is the reason why the worker did not start.
type failed struct {
	Errno syscall.Errno // error from starting the program, or zero if it was not attempted
	Text  string
}

// startApart starts the worker through the worker's program, which is the first process in its namespaces.
func startApart(o Order, files []uintptr) (worker int, err error) {
	orderIn, orderOut, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer func() { _, _ = orderIn.Close(), orderOut.Close() }()
	resultIn, resultOut, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer func() { _, _ = resultIn.Close(), resultOut.Close() }()
	worker, err = syscall.ForkExec("/proc/self/exe", []string{"worker", ApartCommand}, &syscall.ProcAttr{
		Dir: "/", Env: slices.DeleteFunc(slices.Clone(o.Env),
			func(v string) bool { return !strings.HasPrefix(v, Marker+"=") }),
		Files: append(files, orderIn.Fd(), resultOut.Fd()),
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: apartFlags},
	})
	if err != nil {
		return 0, fmt.Errorf("supervisor: create worker namespaces: %w", err)
	}
	_, _ = orderIn.Close(), resultOut.Close()
	o.Stdin = nil // the worker gets its standard input through a pipe instead
	err = json.NewEncoder(orderOut).Encode(o)
	_ = orderOut.Close()
	var f failed
	// no message means that the worker runs, or was killed by a signal
	if decodeErr := json.NewDecoder(resultIn).Decode(&f); decodeErr != nil {
		return worker, err
	}
	reap(worker)
	if f.Errno != 0 {
		return 0, f.Errno
	}
	return 0, errors.New("supervisor: isolate the worker: " + f.Text)
}

// BecomeWorker implements ApartCommand. It returns only after a failure.
func BecomeWorker([]string) int {
	runtime.LockOSThread()
	syscall.CloseOnExec(apartOrderFD)
	syscall.CloseOnExec(apartResultFD)
	var o Order
	err := json.NewDecoder(os.NewFile(apartOrderFD, "order")).Decode(&o)
	if err == nil {
		err = o.Apart.enter()
	}
	f := failed{}
	if err == nil {
		if err = become(o); err != nil {
			f.Errno, _ = errors.AsType[syscall.Errno](err)
		}
	}
	f.Text = err.Error()
	_ = json.NewEncoder(os.NewFile(apartResultFD, "result")).Encode(f)
	return 1
}

// enter hides the paths in Hide, except Show, and mounts a new /proc. The process must already have its own namespaces.
func (a *Apart) enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	shown := map[string]*os.File{}
	for _, path := range a.Show {
		if !slices.ContainsFunc(a.Hide, func(hidden string) bool { return lies(path, hidden) }) {
			continue
		}
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err == nil {
			shown[path] = os.NewFile(uintptr(fd), path)
		} else if !errors.Is(err, fs.ErrNotExist) { // the start reports a missing path
			return fmt.Errorf("open %s: %w", path, err)
		}
	}
	for _, path := range a.Hide {
		if err := hide(path); err != nil {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	for path, file := range shown {
		if err := show(path, file); err != nil {
			return fmt.Errorf("show %s: %w", path, err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("private /proc: %w", err)
	}
	return nil
}

func lies(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// hide mounts an empty, traversable directory or an empty file over a path.
func hide(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return unix.Mount("hidden", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0711,size=64k")
	}
	return unix.Mount(os.DevNull, path, "", unix.MS_BIND, "")
}

// show mounts the original file or directory, which enter opened before it hid the path.
func show(path string, file *os.File) error {
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o711); err != nil {
		return err
	}
	if info.IsDir() {
		err = os.Mkdir(path, 0o711)
	} else {
		err = unix.Mknod(path, unix.S_IFREG|0o600, 0)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return unix.Mount(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), path, "", unix.MS_BIND|unix.MS_REC, "")
}

// become drops all privileges and turns into the worker. It returns only after a failure.
func become(o Order) error {
	syscall.Umask(0o022)
	if o.UID != 0 {
		for _, err := range []error{syscall.Setgroups(nil), syscall.Setgid(o.GID), syscall.Setuid(o.UID)} {
			if err != nil {
				return err
			}
		}
	}
	// The kernel clears the death signal when the user changes.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if err := os.Chdir(o.Workdir); err != nil {
		return err
	}
	return syscall.Exec(o.Argv[0], o.Argv, o.Env)
}
