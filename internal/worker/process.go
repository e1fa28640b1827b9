package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/sys/ring"

	"golang.org/x/sys/unix"
)

// errNoProgram means that the program of a stage is missing or not executable.
var errNoProgram = errors.New("worker: no such program")

// tailBytes is the size of each stream's tail. Two tails fit into the default max_message_bytes (64 KiB). One tail
// holds a stack trace of 16 KiB, the longest seen from a coding agent, and the cause above it.
const tailBytes = 32 << 10

// leftoverGrace is the time between SIGTERM and SIGKILL for leftover processes of a stage, capped at the plan's stop
// grace. Their stage is over, so they only need to clean up.
const leftoverGrace = 2 * time.Second

// killWait is the maximum wait for killed processes and their streams. Only a disk or network operation in the kernel
// can delay them longer, and then further waiting does not help.
const killWait = 5 * time.Second

// command is one run of a program.
type command struct {
	argv    []string
	dir     string
	env     []string
	path    string        // PATH of env
	timeout time.Duration // 0 means none
	grace   time.Duration // time from SIGTERM to SIGKILL
	stage   string

	stdout, stderr io.Writer // receive the streams unredacted; may be nil

	started  func()          // called as soon as the program runs; may be nil
	finished <-chan struct{} // closed if the program has finished but does not exit; may be nil
}

// runs calls started, if it is set.
func (c *command) runs() {
	if c.started != nil {
		c.started()
	}
}

// exit is the result of a run.
type exit struct {
	err      error // the start failed; the other fields are then empty
	code     int   // 128 + signal number if a signal ended it
	signal   string
	timedOut bool
	stopped  bool      // set if the context ended it
	lingered bool      // set if it finished but did not exit, and was ended; code and signal are then empty
	shortage *shortage // evidence that memory ran out, or nil
	stdout   tail
	stderr   tail
	outAt    time.Time // time of the last output, by stream
	errAt    time.Time
	took     time.Duration
}

// ok reports success.
func (e exit) ok() bool { return e.err == nil && e.code == 0 && !e.timedOut && !e.stopped }

// failedByItself reports whether the program ran to its end and returned a code other than 0.
func (e exit) failedByItself() bool {
	return e.err == nil && e.code != 0 && e.signal == "" && !e.timedOut && !e.stopped
}

// outOfMemory reports whether a stage's program failed for lack of memory. The kernel's count shows that some process
// was killed. That was the program itself if it died of SIGKILL or returned 137. VALIDATE runs compilers and tests,
// which the kernel kills first, so the count alone is sufficient evidence for VALIDATE. An agent may continue after one
// of its commands was killed, so CODE needs the stronger evidence.
func (e exit) outOfMemory(stage string) bool {
	if e.shortage == nil || e.err != nil || e.code == 0 || e.timedOut || e.stopped {
		return false
	}
	const bySIGKILL = 128 + 9 // as shells report it
	return e.signal == signalName(syscall.SIGKILL) || e.code == bySIGKILL || stage == wire.StageValidate
}

// processRunner runs commands as operating system processes.
type processRunner struct {
	reaper         *reaper
	masks          *masks
	stdout, stderr io.Writer // receive the redacted streams
	memory         func() (memory, bool)
}

// run starts the command in a new process group. It returns when the leader, its group and all detached processes have
// ended. When ctx is done, the group gets SIGTERM. It gets SIGKILL after the command's grace period, or after the grace
// period in ctx's stopCause if that is shorter.
func (p *processRunner) run(ctx context.Context, c command) exit {
	began := time.Now()
	p.masks.begin(c.stage)
	out, err := newCapture(p.masks, p.stdout, c.stdout)
	if err != nil {
		return exit{err: err}
	}
	errs, err := newCapture(p.masks, p.stderr, c.stderr)
	if err != nil {
		out.abandon()
		return exit{err: err}
	}
	before, counted := p.memory()
	pid, ended, err := p.start(c, out.write, errs.write)
	out.begin()
	errs.begin()
	e := exit{err: err}
	if err == nil {
		c.runs()
		var grace time.Duration
		e, grace = p.await(ctx, c, pid, ended)
		p.sweep(min(leftoverGrace, grace))
	}
	if after, ok := p.memory(); ok && counted {
		e.shortage = shortageBetween(before, after)
	}
	e.stdout, e.stderr = out.end(), errs.end()
	e.outAt, e.errAt = out.last, errs.last
	e.took = time.Since(began)
	return e
}

func (p *processRunner) start(c command, stdout, stderr *os.File) (int, <-chan syscall.WaitStatus, error) {
	file, err := lookProgram(c.argv[0], c.path, c.dir)
	if err != nil {
		return 0, nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = null.Close() }()
	pid, ended, err := p.reaper.start(file, c.argv, &syscall.ProcAttr{
		Dir: c.dir, Env: c.env,
		Files: []uintptr{null.Fd(), stdout.Fd(), stderr.Fd()},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOEXEC) {
		// The file exists, so either its interpreter is missing, or it was built for another machine.
		err = fmt.Errorf("%w: %s exists but does not start (check that its interpreter is installed and that it was "+
			"built for this machine): %w", errNoProgram, file, err)
	}
	return pid, ended, err
}

// await waits for the leader and ends it when its time is up. It also returns the grace that applied.
func (p *processRunner) await(ctx context.Context, c command, pid int,
	ended <-chan syscall.WaitStatus,
) (exit, time.Duration) {
	var e exit
	var deadline <-chan time.Time
	if c.timeout > 0 {
		t := time.NewTimer(c.timeout)
		defer t.Stop()
		deadline = t.C
	}
	grace := c.grace
	select {
	case s := <-ended:
		return e.with(s), grace
	case <-c.finished:
		e.lingered = true
		p.end(pid, ended, grace)
		return e, grace
	case <-deadline:
		e.timedOut = true
	case <-ctx.Done():
		e.stopped = true
		if why, ok := errors.AsType[*stopCause](context.Cause(ctx)); ok {
			grace = min(grace, why.grace)
		}
	}
	return e.with(p.end(pid, ended, grace)), grace
}

// end stops a leader and its group. If there is a grace period, it tries SIGTERM first.
func (p *processRunner) end(pid int, ended <-chan syscall.WaitStatus, grace time.Duration) syscall.WaitStatus {
	if grace > 0 {
		p.reaper.signalGroup(pid, syscall.SIGTERM)
		p.reaper.signalGroup(pid, syscall.SIGCONT) // a stopped program cannot react
		select {
		case s := <-ended:
			return s
		case <-time.After(grace):
		}
	}
	p.reaper.signalGroup(pid, syscall.SIGKILL)
	select {
	case s := <-ended:
		return s
	case <-time.After(killWait):
		return syscall.WaitStatus(syscall.SIGKILL) // the kernel delays the exit, but the process will exit
	}
}

func (e exit) with(s syscall.WaitStatus) exit {
	e.code = s.ExitStatus()
	if s.Signaled() {
		e.code, e.signal = 128+int(s.Signal()), signalName(s.Signal())
	}
	return e
}

// sweep ends the leftover processes of a stage. As PID 1 or subreaper we are the parent of every orphan, so once we
// have no children, the kernel has confirmed that no process survived.
func (p *processRunner) sweep(grace time.Duration) {
	if p.reaper.childless() {
		return
	}
	signalDescendants(syscall.SIGTERM)
	signalDescendants(syscall.SIGCONT)
	if p.childlessWithin(grace, nil) {
		return
	}
	if !p.childlessWithin(killWait, func() { signalDescendants(syscall.SIGKILL) }) {
		signalEverybody(syscall.SIGKILL)
		p.childlessWithin(time.Second, nil)
	}
}

// childlessWithin waits up to d for all children to end. It calls the function after each child ends, and every 20 ms,
// because a single signal misses a process that is forked between the listing and the signal.
func (p *processRunner) childlessWithin(d time.Duration, again func()) bool {
	limit := time.NewTimer(d)
	defer limit.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if again != nil {
			again()
		}
		if p.reaper.childless() {
			return true
		}
		select {
		case <-limit.C:
			return p.reaper.childless()
		case <-p.reaper.reaped:
		case <-tick.C:
		}
	}
}

// capture redacts one stream of a run line by line, and copies it into a ring buffer and to the console.
type capture struct {
	read, write *os.File
	ring        *ring.Buffer
	lines       *maskLines
	listener    io.Writer // may be nil
	done        chan struct{}
	last        time.Time // time of the last output; read it after end
}

func newCapture(m *masks, onward, listener io.Writer) (*capture, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	keep := ring.New(tailBytes)
	return &capture{
		read: r, write: w, ring: keep, listener: listener, done: make(chan struct{}),
		lines: &maskLines{masks: m, to: m.redactor().NewWriter(io.MultiWriter(keep, onward))},
	}, nil
}

// begin closes our copy of the pipe's write end, and copies the output in a goroutine until all writers have ended.
func (c *capture) begin() {
	_ = c.write.Close()
	go func() {
		defer close(c.done)
		var to io.Writer = c.lines
		if c.listener != nil {
			to = io.MultiWriter(c.lines, c.listener)
		}
		_, _ = io.Copy(stamped{to, &c.last}, c.read) // until EOF or end's deadline
		c.lines.Flush()
	}()
}

// stamped records the time of each write.
type stamped struct {
	io.Writer
	last *time.Time
}

func (s stamped) Write(p []byte) (int, error) {
	*s.last = time.Now()
	return s.Writer.Write(p)
}

// end returns the tail. The kernel may delay a writer's exit, so end stops reading after killWait.
func (c *capture) end() tail {
	_ = c.read.SetReadDeadline(time.Now().Add(killWait))
	<-c.done
	_ = c.read.Close()
	kept, dropped := c.ring.Tail()
	return tail{kept, dropped}
}

func (c *capture) abandon() {
	_ = c.write.Close()
	_ = c.read.Close()
}

func signalName(s syscall.Signal) string {
	return cmp.Or(unix.SignalName(s), "SIG"+strconv.Itoa(int(s)))
}
