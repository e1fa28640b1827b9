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

// errNoProgram: the program of a stage is missing or cannot be run.
var errNoProgram = errors.New("worker: no such program")

// tailBytes is how much of each stream is kept: 32 KiB, as half of the default max_message_bytes (64 KiB) still holds
// a stack trace of 16 KiB plus the cause above it, the worst seen of a coding agent.
const tailBytes = 32 << 10

// leftoverGrace is how long processes that a stage left behind have between SIGTERM and SIGKILL (2 s, at most the
// plan's stop grace): their stage is over, only a clean-up of their own is owed to them.
const leftoverGrace = 2 * time.Second

// killWait is how long we wait for killed processes and for their streams: longer only if the kernel holds them
// (disk or network wait), and then waiting does not help.
const killWait = 5 * time.Second

// command is one program run.
type command struct {
	argv    []string
	dir     string
	env     []string
	path    string        // PATH of env
	timeout time.Duration // 0: none
	grace   time.Duration // SIGTERM → SIGKILL
	stage   string

	stdout, stderr io.Writer // who listens to its streams, unredacted; nil: nobody
}

// exit is how a program run ended.
type exit struct {
	err      error // it never started; the rest is empty then
	code     int   // 128 + signal number if a signal ended it
	signal   string
	timedOut bool
	stopped  bool      // the context ended it
	shortage *shortage // the kernel killed something of it for want of memory; nil: no evidence
	stdout   tail
	stderr   tail
	took     time.Duration
}

// ok: the program did what was asked for.
func (e exit) ok() bool { return e.err == nil && e.code == 0 && !e.timedOut && !e.stopped }

// failedByItself: the program ran to its end and returned a code other than 0.
func (e exit) failedByItself() bool {
	return e.err == nil && e.code != 0 && e.signal == "" && !e.timedOut && !e.stopped
}

// outOfMemory reports whether a stage's program failed for want of memory. By the kernel's count something was killed:
// the program itself if it died of SIGKILL or returned 137. What judges a change runs compilers and tests that die
// in its place; an agent may have gone on after one of its commands did, hence not CODE.
func (e exit) outOfMemory(stage string) bool {
	if e.shortage == nil || e.err != nil || e.code == 0 || e.timedOut || e.stopped {
		return false
	}
	const bySIGKILL = 128 + 9 // a shell's word for it
	return e.signal == signalName(syscall.SIGKILL) || e.code == bySIGKILL || stage == wire.StageValidate
}

// processRunner runs commands as processes of the operating system.
type processRunner struct {
	reaper         *reaper
	masks          *masks
	stdout, stderr io.Writer // where the streams go on to
	memory         func() (memory, bool)
}

// run starts the command in a process group of its own and returns when nothing of it is left: the leader, its
// group, and whatever it detached. Ending ctx stops it: SIGTERM to the group, SIGKILL after the grace that the
// context's cause states (see stopCause), or the command's.
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
		var grace time.Duration
		e, grace = p.await(ctx, c, pid, ended)
		p.sweep(min(leftoverGrace, grace))
	}
	if after, ok := p.memory(); ok && counted {
		e.shortage = shortageBetween(before, after)
	}
	e.stdout, e.stderr = out.end(), errs.end()
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
		// The file is there, so what is missing is its interpreter, or it is for another machine.
		err = fmt.Errorf("%w: %s is there but does not start (is its interpreter there, is it built for this "+
			"machine?): %w", errNoProgram, file, err)
	}
	return pid, ended, err
}

// await waits for the leader and ends it when its time is up. It also returns the grace that was in force.
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

// end ends a leader and its group: politely if there is a grace, then for certain.
func (p *processRunner) end(pid int, ended <-chan syscall.WaitStatus, grace time.Duration) syscall.WaitStatus {
	if grace > 0 {
		p.reaper.signalGroup(pid, syscall.SIGTERM)
		p.reaper.signalGroup(pid, syscall.SIGCONT) // a stopped program could not obey
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
		return syscall.WaitStatus(syscall.SIGKILL) // held by the kernel; its end is only a matter of time
	}
}

func (e exit) with(s syscall.WaitStatus) exit {
	e.code = s.ExitStatus()
	if s.Signaled() {
		e.code, e.signal = 128+int(s.Signal()), signalName(s.Signal())
	}
	return e
}

// sweep ends what a stage left behind. As PID 1 (or subreaper) every orphan is our child by now, so "no child left"
// is the kernel's own word for "nothing survived".
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

// childlessWithin waits until no child is left, repeating what is given after every child that ended and every 20 ms
// (a fork between listing and signal goes unnoticed otherwise).
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

// capture is one stream of a run: a pipe, redacted line by line into a ring and on to the console.
type capture struct {
	read, write *os.File
	ring        *ring.Buffer
	lines       *maskLines
	listener    io.Writer // nil: nobody listens
	done        chan struct{}
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

// begin closes our copy of the writing end and copies until the last writer is gone.
func (c *capture) begin() {
	_ = c.write.Close()
	go func() {
		defer close(c.done)
		var to io.Writer = c.lines
		if c.listener != nil {
			to = io.MultiWriter(c.lines, c.listener)
		}
		_, _ = io.Copy(to, c.read) // until EOF, or the deadline of end
		c.lines.Flush()
	}()
}

// end returns the tail. All writers are dead by now, unless the kernel holds one: then it stops reading after a while.
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
