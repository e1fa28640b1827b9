package workspace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// remoteTime is the maximum time for a run of git that talks to a server. With baseConfig, git closes dead connections
// much earlier.
const remoteTime = time.Hour

func (p *program) timeFor(c call) time.Duration {
	if c.remote {
		return remoteTime
	}
	return p.limits.GitTime
}

// start starts git with resource limits. It uses prlimit(2), which does not need privileges for a child of the same
// user. Git waits for the limits, because its global configuration is a pipe that start closes after setting them. Git
// reads its configuration before it starts other programs, so its children have the limits too, even if the director is
// killed.
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
		return errors.Join(fmt.Errorf("limit git's resources: %w", err), cmd.Cancel(), cmd.Wait())
	}
	return nil
}

// bound lowers the limits of a process that has just started.
func (p *program) bound(pid int, c call) error {
	for _, l := range []struct {
		resource int
		value    uint64
		more     uint64 // beyond value, between the signal and the kill
	}{
		{unix.RLIMIT_AS, uint64(p.limits.GitMemory), 0},              //nolint:gosec // positive
		{unix.RLIMIT_CPU, uint64(2 * p.timeFor(c) / time.Second), 5}, //nolint:gosec // positive
		{unix.RLIMIT_FSIZE, uint64(p.largest(c)), 0},                 //nolint:gosec // positive
		{unix.RLIMIT_CORE, 0, 0},
	} {
		var now unix.Rlimit
		err := unix.Prlimit(pid, l.resource, nil, &now)
		if err == nil {
			value := min(l.value, now.Max)
			err = unix.Prlimit(pid, l.resource, &unix.Rlimit{Cur: value, Max: min(l.value+l.more, now.Max)}, nil)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) { // git may have exited
			return err
		}
	}
	return nil
}

// beyond returns the error about an exceeded limit. It is ErrTooMuch if the call reads an agent's work, and
// ErrLimitTooLow otherwise.
func (c call) beyond(format string, args ...any) error {
	if c.remote || c.base {
		return tooLow(c.op, format, args...)
	}
	return tooMuch(c.op, format, args...)
}

// tookTooLong returns the error about a git that exceeded its deadline. used is the processor time of git. Below half
// of the deadline, it blames other load, because git gets half of the time when one other process competes.
func (p *program) tookTooLong(c call, used time.Duration) error {
	switch {
	case c.remote:
		return &Error{Kind: Transient, Op: c.op, Detail: "git did not finish within " + remoteTime.String()}
	case used < p.limits.GitTime/2:
		return &Error{
			Kind: Transient, Op: c.op, Err: ErrSlow,
			Detail: fmt.Sprintf("git did not finish within %s (checkout.git_seconds) and used only %s of processor "+
				"time, so the machine is busy", p.limits.GitTime, used.Round(time.Millisecond)),
		}
	}
	return c.beyond("git was ended: it took longer than %s (checkout.git_seconds)", p.limits.GitTime)
}

// overLimit names the limit that ended git or one of its children, or "". It ignores the server's messages about the
// server's limits.
func (p *program) overLimit(c call, exit *exec.ExitError, said string) string {
	var own strings.Builder
	for line := range strings.Lines(strings.ToLower(said)) {
		if !strings.HasPrefix(line, "remote:") && !strings.HasPrefix(line, "!") {
			own.WriteString(line)
		}
	}
	has := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(own.String(), text) })
	}
	var signal syscall.Signal
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		signal = status.Signal()
	}
	switch {
	case signal == syscall.SIGXCPU || has(fmt.Sprintf("died of signal %d", syscall.SIGXCPU)):
		if c.remote {
			return fmt.Sprintf("it used more than %s of processor time", 2*remoteTime)
		}
		return fmt.Sprintf("it used more than %s of processor time (checkout.git_seconds)", 2*p.limits.GitTime)
	case signal == syscall.SIGXFSZ || has(fmt.Sprintf("died of signal %d", syscall.SIGXFSZ), "file too large"):
		if c.remote || c.base {
			return fmt.Sprintf("it wrote a file of more than %d bytes (the larger of checkout.max_bytes and "+
				"checkout.max_work_bytes)", p.largest(c))
		}
		return "it wrote a file that exceeds the limit for the whole work (checkout.max_work_bytes)"
	case has("out of memory", "cannot allocate memory"):
		return fmt.Sprintf("it needs more than %d bytes of memory (checkout.git_memory)", p.limits.GitMemory)
	}
	return ""
}

// largest returns the maximum size of a file that git may write.
func (p *program) largest(c call) int64 {
	if c.remote || c.base {
		return max(p.limits.WorkBytes+maxAnswer, p.limits.Bytes)
	}
	return p.limits.WorkBytes + maxAnswer
}
