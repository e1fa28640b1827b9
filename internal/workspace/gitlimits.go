package workspace

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"retake/internal/gitwords"
)

// remoteTime is the maximum time for a git run that talks to a server. With baseConfig, git closes dead connections
// much earlier.
const remoteTime = time.Hour

func (p *program) timeFor(c call) time.Duration {
	if c.remote {
		return remoteTime
	}
	return p.limits.GitTime
}

// start starts git with resource limits. It uses prlimit(2), which does not need privileges for a child of the same
// user. Git's global configuration is a pipe that start closes only after it has set the limits. Git reads its
// configuration before it starts other programs, so its children have the limits too, even if the director is killed.
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

// bound lowers the resource limits of a process that has just started.
func (p *program) bound(pid int, c call) error {
	for _, l := range []struct {
		resource int
		value    uint64
		more     uint64 // seconds of processor time from SIGXCPU to SIGKILL
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

// beyond returns the error for an exceeded limit. It is ErrTooMuch if the call reads an agent's work, and
// ErrLimitTooLow otherwise.
func (c call) beyond(format string, args ...any) error {
	if c.remote || c.base {
		return tooLow(c.op, format, args...)
	}
	return tooMuch(c.op, format, args...)
}

// tookTooLong returns the error for a git run that exceeded its deadline. used is git's processor time. If used is less
// than half the deadline, the error blames other load, because git gets half of the processor time even when another
// process competes with it.
func (p *program) tookTooLong(c call, used time.Duration) error {
	switch {
	case c.remote:
		return &Error{Kind: Transient, Op: c.op, Detail: "git did not finish within " + remoteTime.String()}
	case used < p.limits.GitTime/2:
		return &Error{
			Kind: Transient, Op: c.op, Err: ErrSlow,
			Detail: fmt.Sprintf("git did not finish within %s (checkout.git_seconds) and used only %s of CPU time, "+
				"so the machine is busy", p.limits.GitTime, used.Round(time.Millisecond)),
		}
	}
	return c.beyond("git was stopped: it took longer than %s (checkout.git_seconds)", p.limits.GitTime)
}

// overLimit describes the limit that stopped git or one of its children. It returns "" if no limit did, and ignores the
// server's messages about the server's limits.
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
			return fmt.Sprintf("it used more than %s of CPU time", 2*remoteTime)
		}
		return fmt.Sprintf("it used more than %s of CPU time (checkout.git_seconds)", 2*p.limits.GitTime)
	case signal == syscall.SIGXFSZ || has(fmt.Sprintf("died of signal %d", syscall.SIGXFSZ), "file too large"):
		if c.remote || c.base {
			return fmt.Sprintf("it wrote a file larger than %d bytes (the larger of checkout.max_bytes and "+
				"checkout.max_work_bytes)", p.largest(c))
		}
		return "it wrote a single file that exceeds the limit for all of the work (checkout.max_work_bytes)"
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

// Waits after a server's rate limit. If the server does not specify a wait, the first one is limitFirst, and each
// consecutive rate limit doubles it, up to limitMost. A wait specified by the server is capped at limitStated.
const (
	limitFirst  = time.Minute
	limitMost   = 30 * time.Minute
	limitStated = 24 * time.Hour
)

// answers is a trace of a server's response headers, because git's messages omit Retry-After.
type answers struct{ file *os.File }

// traceAnswers makes git write the server's response headers to an in-memory file. If the file cannot be created, the
// trace is empty, and the time in Retry-After is unknown.
func traceAnswers(cmd *exec.Cmd, c call) answers {
	if !c.remote {
		return answers{}
	}
	fd, err := unix.MemfdCreate("git-answers", unix.MFD_CLOEXEC)
	if err != nil {
		return answers{}
	}
	a := answers{os.NewFile(uintptr(fd), "git-answers")}
	cmd.ExtraFiles = append(cmd.ExtraFiles, a.file)
	cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_TRACE_CURL=%d", 2+len(cmd.ExtraFiles)), "GIT_TRACE_CURL_NO_DATA=1")
	return a
}

func (a answers) close() {
	if a.file != nil {
		_ = a.file.Close()
	}
}

// end returns the last 64 KiB of the trace.
func (a answers) end() string {
	if a.file == nil {
		return ""
	}
	info, err := a.file.Stat()
	if err != nil {
		return ""
	}
	last := make([]byte, min(info.Size(), 64<<10))
	n, _ := a.file.ReadAt(last, info.Size()-int64(len(last))) // a shorter trace is fine
	return string(last[:n])
}

// serverLimit counts consecutive rate limits without a usable Retry-After. It is safe for concurrent use.
type serverLimit struct {
	mu    sync.Mutex
	count int
	at    time.Time
}

// answered resets the count after a successful call to a server. It always returns nil.
func (l *serverLimit) answered(c call) error {
	if c.remote {
		l.mu.Lock()
		l.count = 0
		l.mu.Unlock()
	}
	return nil
}

// read adds the server's rate limit, if any, to the error of a call that began at the given time.
func (l *serverLimit) read(e *Error, c call, a answers, began time.Time) {
	stated, limited := gitwords.LimitAnswer(a.end())
	if limited {
		e.Kind, e.Words, e.Next, e.Err = Limited, gitwords.Limited, "", nil
	}
	if e.Kind != Limited || !c.remote {
		return
	}
	now := time.Now()
	if wait := waitFor(stated, now); wait > 0 {
		e.Until = now.Add(wait)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if began.After(l.at) || l.count == 0 { // calls that began before the last limit do not count again
		l.count++
		l.at = now
	}
	e.Until = now.Add(min(limitFirst<<min(l.count-1, 10), limitMost))
}

// waitFor parses a Retry-After value, in seconds or as a date. It returns 0 for any other value.
func waitFor(retryAfter string, now time.Time) time.Duration {
	seconds, err := strconv.Atoi(retryAfter)
	wait := time.Duration(min(seconds, int(limitStated/time.Second))) * time.Second
	if err != nil {
		at, bad := http.ParseTime(retryAfter)
		if bad != nil {
			return 0
		}
		wait = at.Sub(now)
	}
	return min(max(wait, time.Second), limitStated)
}
