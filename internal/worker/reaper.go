package worker

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"unsafe"

	"retake/internal/sys/procfs"

	"golang.org/x/sys/unix"
)

// reaper waits for all children of this process. It is the only caller of wait4, so that each exit status reaches the
// run that started the child. No other code may start children, because os/exec would wait for them as well.
type reaper struct {
	mu      sync.Mutex // held while a child is created or reaped, so that a leader is registered before it is reaped
	leaders map[int]chan<- syscall.WaitStatus
	orphans int // re-parented children reaped so far

	sigchld chan os.Signal
	reaped  chan struct{} // holds one token if a child was reaped since the last check
	stopped chan struct{}
}

// adoptOrphans makes this process the parent of orphaned descendants, so that it finds daemonized grandchildren. PID 1
// is already their parent.
func adoptOrphans() error { return prctl(unix.PR_SET_CHILD_SUBREAPER, 1) }

// hideMemory keeps processes of the same user from reading our memory, environment and open files, which may contain
// the bus credential.
func hideMemory() error { return prctl(unix.PR_SET_DUMPABLE, 0) }

// refuseRings blocks io_uring for this process and its children. io_uring bypasses system call filters, and engines
// before Docker 25 allow it. Without no_new_privs (outside a container), refuseRings does nothing.
func refuseRings() error {
	if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || on == 0 {
		return err
	}
	filter := []unix.SockFilter{ // the three numbers are the same on all architectures, except for x32's bit
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: ^uint32(0x40000000)},
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: unix.SYS_IO_URING_SETUP, Jf: 2},
		{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: unix.SYS_IO_URING_REGISTER, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	thread, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if e != 0 || thread != 0 {
		return fmt.Errorf("worker: seccomp, thread %d: %w", thread, e)
	}
	return nil
}

func prctl(option int, value uintptr) error {
	if err := unix.Prctl(option, value, 0, 0, 0); err != nil {
		return fmt.Errorf("worker: prctl %d: %w", option, err)
	}
	return nil
}

// startReaper starts reaping. The caller stops it.
func startReaper() *reaper {
	r := &reaper{
		leaders: map[int]chan<- syscall.WaitStatus{},
		sigchld: make(chan os.Signal, 1),
		reaped:  make(chan struct{}, 1),
		stopped: make(chan struct{}),
	}
	signal.Notify(r.sigchld, syscall.SIGCHLD)
	go func() {
		defer close(r.stopped)
		r.drain() // reap children that ended earlier
		for range r.sigchld {
			r.drain()
		}
	}()
	return r
}

// stop stops the reaper and waits for it to finish.
func (r *reaper) stop() {
	signal.Stop(r.sigchld)
	close(r.sigchld) // safe, since signal.Stop prevents further sends
	<-r.stopped
}

func (r *reaper) drain() {
	for r.reapOne() {
	}
}

func (r *reaper) reapOne() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var status syscall.WaitStatus
	pid, err := wait4(&status)
	if err != nil || pid <= 0 {
		return false
	}
	if ended, ours := r.leaders[pid]; ours {
		delete(r.leaders, pid)
		ended <- status // buffered
	} else {
		r.orphans++
	}
	select {
	case r.reaped <- struct{}{}:
	default:
	}
	return true
}

func wait4(status *syscall.WaitStatus) (int, error) {
	for {
		pid, err := syscall.Wait4(-1, status, syscall.WNOHANG, nil)
		if err != syscall.EINTR {
			return pid, err
		}
	}
}

// start creates a child. ended receives its status once.
func (r *reaper) start(file string, argv []string,
	attr *syscall.ProcAttr,
) (pid int, ended <-chan syscall.WaitStatus, err error) {
	status := make(chan syscall.WaitStatus, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err = syscall.ForkExec(file, argv, attr)
	if err != nil {
		return 0, nil, err
	}
	r.leaders[pid] = status
	return pid, status, nil
}

// signalGroup signals the process group of a leader. It does nothing if the leader has been reaped, because the kernel
// may have reused the process ID.
func (r *reaper) signalGroup(leader int, sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, running := r.leaders[leader]; running {
		_ = syscall.Kill(-leader, sig) // ESRCH means that the group is already ending
	}
}

// childless reports whether we have no children left, running or zombie.
func (r *reaper) childless() bool {
	r.drain()
	r.mu.Lock()
	defer r.mu.Unlock()
	// With WNOWAIT, this call does not reap the child.
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return errors.Is(err, syscall.ECHILD)
}

// signalDescendants signals every process below this one. It lists /proc only once, so the caller must call it again to
// reach processes forked during the call. Without /proc, only PID 1 can signal its namespace.
func signalDescendants(sig syscall.Signal) {
	all, err := procfs.List()
	if err != nil || len(all) == 0 {
		signalEverybody(sig)
		return
	}
	for _, p := range procfs.Descendants(all, func(p procfs.Process) bool { return p.PID == os.Getpid() }) {
		_, _ = p.Signal(sig)
	}
}

// signalEverybody signals all processes in the namespace, as PID 1's last resort. The kernel does so atomically, so not
// even a fork bomb escapes. This also ends any interactive shell in the container.
func signalEverybody(sig syscall.Signal) {
	if os.Getpid() == 1 {
		_ = syscall.Kill(-1, sig)
	}
}
