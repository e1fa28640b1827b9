package worker

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// reaper owns all waiting in this process: it is the only caller of wait4, so that reaping a stray orphan can never
// steal the exit status of a stage. Nothing else in the process may start children (os/exec would wait for its own).
type reaper struct {
	mu      sync.Mutex // held while a child is made or reaped: a leader's pid is known before its end can be seen
	leaders map[int]chan<- syscall.WaitStatus
	orphans int // re-parented children reaped so far

	kick    chan os.Signal
	reaped  chan struct{} // one token: something was reaped since the last look
	stopped chan struct{}
}

// prSetDumpable and prSetChildSubreaper are prctl's options; the syscall package names them only in part.
const (
	prSetDumpable       = 4
	prSetChildSubreaper = 36
)

// adoptOrphans makes this process the parent of its descendants' orphans. PID 1 is that anyway; under the process
// runtime it is what keeps a daemonised grandchild within reach.
func adoptOrphans() error { return prctl(prSetChildSubreaper, 1) }

// hideMemory keeps processes of the same user from reading our memory, environment and open files, all of which may
// hold the bus credential.
func hideMemory() error { return prctl(prSetDumpable, 0) }

func prctl(option, value uintptr) error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, option, value, 0); errno != 0 {
		return fmt.Errorf("worker: prctl %d: %w", option, errno)
	}
	return nil
}

// startReaper begins to reap. The caller stops it.
func startReaper() *reaper {
	r := &reaper{
		leaders: map[int]chan<- syscall.WaitStatus{},
		kick:    make(chan os.Signal, 1),
		reaped:  make(chan struct{}, 1),
		stopped: make(chan struct{}),
	}
	signal.Notify(r.kick, syscall.SIGCHLD)
	go func() {
		defer close(r.stopped)
		r.drain() // what ended before we listened
		for range r.kick {
			r.drain()
		}
	}()
	return r
}

// stop ends the reaping and waits for it.
func (r *reaper) stop() {
	signal.Stop(r.kick)
	close(r.kick) // safe: after Stop nothing is sent any more
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

// start makes a child; its status will be sent once on ended.
func (r *reaper) start(file string, argv []string, attr *syscall.ProcAttr) (pid int, ended <-chan syscall.WaitStatus, err error) {
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

// signalGroup signals the process group of a leader that was not reaped yet; afterwards its number may belong to
// somebody else, so then it does nothing.
func (r *reaper) signalGroup(leader int, sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, running := r.leaders[leader]; running {
		_ = syscall.Kill(-leader, sig) // ESRCH: it is ending by itself
	}
}

// childless says whether no child, running or zombie, is left.
func (r *reaper) childless() bool {
	r.drain()
	r.mu.Lock()
	defer r.mu.Unlock()
	// A look that reaps nothing; the kernel takes a nil siginfo.
	const pAll, wExited, wNoHang, wNoWait = 0, 4, 1, 0x01000000
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pAll, 0, 0, wExited|wNoHang|wNoWait, 0, 0)
	return errno == syscall.ECHILD
}

// signalDescendants signals every process below this one. It works on a listing of /proc: what is forked meanwhile is
// met by the next call. Without /proc, PID 1 signals all there is in its namespace, and anybody else nobody.
func signalDescendants(sig syscall.Signal) {
	self := os.Getpid()
	parents, err := processParents()
	if err != nil {
		if self == 1 {
			_ = syscall.Kill(-1, sig)
		}
		return
	}
	for pid := range parents {
		if descends(pid, self, parents) {
			_ = syscall.Kill(pid, sig)
		}
	}
}

// signalEverybody is PID 1's last word: the kernel signals all processes of the namespace but us, atomically, so that
// not even a fork bomb gets away. It also ends a person's shell in the container, hence only the last word.
func signalEverybody(sig syscall.Signal) {
	if os.Getpid() == 1 {
		_ = syscall.Kill(-1, sig)
	}
}

func descends(pid, ancestor int, parents map[int]int) bool {
	for range len(parents) { // a listing that changed under us may contain a loop
		parent, ok := parents[pid]
		if !ok {
			return false
		}
		if parent == ancestor {
			return true
		}
		pid = parent
	}
	return false
}

// processParents reads /proc: process → parent.
func processParents() (map[int]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	parents := map[int]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // ended meanwhile
		}
		// "pid (name) state ppid …", and the name may hold anything, parentheses included.
		if _, rest, ok := cutLast(string(stat), ")"); ok {
			if fields := strings.Fields(rest); len(fields) > 1 {
				if ppid, err := strconv.Atoi(fields[1]); err == nil {
					parents[pid] = ppid
				}
			}
		}
	}
	if len(parents) == 0 {
		return nil, fmt.Errorf("worker: /proc lists no process")
	}
	return parents, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
