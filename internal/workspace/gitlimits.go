package workspace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// remoteTime bounds a run of git that talks to a server. A dead connection ends much earlier, see baseConfig.
const remoteTime = time.Hour

func (p *program) timeFor(c call) time.Duration {
	if c.remote {
		return remoteTime
	}
	return p.limits.GitTime
}

// start starts git with limits of its own. They are set from outside, by prlimit(2), which needs no rights beyond those over a child of the same user.
// Git waits for them: its global configuration is a pipe, which it reads first of all and before it starts anything, and which ends when they
// are set. So they hold for its children, too, and also when the director is killed.
func (p *program) start(cmd *exec.Cmd, c call) error {
	gate, open, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _, _ = gate.Close(), open.Close() }()
	cmd.ExtraFiles = append(cmd.ExtraFiles, gate)
	cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_CONFIG_GLOBAL=/proc/self/fd/%d", 2+len(cmd.ExtraFiles)))
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := p.bound(cmd.Process.Pid, c); err != nil {
		return errors.Join(fmt.Errorf("git cannot be given limits: %w", err), cmd.Cancel(), cmd.Wait())
	}
	return nil
}

// bound sets the limits of a process that was just started, as far as it has not lower ones.
func (p *program) bound(pid int, c call) error {
	largest := p.limits.WorkBytes + maxAnswer
	if c.remote {
		largest = max(largest, p.limits.Bytes)
	}
	for _, l := range []struct {
		resource int
		value    uint64
		more     uint64 // from here on it is killed; before that it is told
	}{
		{unix.RLIMIT_AS, uint64(p.limits.GitMemory), 0},              //nolint:gosec // positive
		{unix.RLIMIT_CPU, uint64(2 * p.timeFor(c) / time.Second), 5}, //nolint:gosec // positive
		{unix.RLIMIT_FSIZE, uint64(largest), 0},                      //nolint:gosec // positive
		{unix.RLIMIT_CORE, 0, 0},
	} {
		var now unix.Rlimit
		err := unix.Prlimit(pid, l.resource, nil, &now)
		if err == nil {
			value := min(l.value, now.Max)
			err = unix.Prlimit(pid, l.resource, &unix.Rlimit{Cur: value, Max: min(l.value+l.more, now.Max)}, nil)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) { // it may have ended already
			return err
		}
	}
	return nil
}

// tookTooLong is the error about a git that was ended by its deadline.
func (p *program) tookTooLong(c call) error {
	if c.remote {
		return &Error{Kind: Transient, Op: c.op, Detail: "git did not come to an end within " + remoteTime.String()}
	}
	return tooMuch(c.op, "git was ended: it took longer than %s (checkout.git_seconds)", p.limits.GitTime)
}

// overLimit says which limit ended a git; empty: none.
func (p *program) overLimit(c call, exit *exec.ExitError, said string) string {
	if c.remote {
		return ""
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		switch status.Signal() {
		case syscall.SIGXCPU:
			return fmt.Sprintf("it used more than %s of a processor (checkout.git_seconds)", 2*p.limits.GitTime)
		case syscall.SIGXFSZ:
			return "a file of its own became larger than all of the work may be (checkout.max_work_bytes)"
		}
	}
	lower := strings.ToLower(said)
	for _, text := range []string{"out of memory", "cannot allocate memory"} {
		if strings.Contains(lower, text) {
			return fmt.Sprintf("it needs more than %d bytes of memory (checkout.git_memory)", p.limits.GitMemory)
		}
	}
	if strings.Contains(lower, "file too large") {
		return "a file of its own became larger than all of the work may be (checkout.max_work_bytes)"
	}
	return ""
}
