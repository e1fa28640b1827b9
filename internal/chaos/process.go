package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"retake/internal/director/operator"
	"retake/internal/sys/tied"
)

// process is a program of ours that is ended and started again and again. Its methods may be called from any goroutine.
type process struct {
	name string
	argv []string
	env  []string
	log  string // file that gets what it prints

	mu     sync.Mutex
	cmd    *exec.Cmd // nil: none is wanted
	ended  chan struct{}
	starts int
	kills  []time.Time // ends with SIGKILL, by whomever
}

// start starts it, unless it runs.
func (p *process) start() error { return p.startWith() }

// startWith is start with more variables.
func (p *process) startWith(more ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && !done(p.ended) {
		return nil
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(slices.Clone(p.env), more...), log, log
	// A group of its own: Ctrl-C in the terminal is for this program alone. It dies with this program.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := tied.Start(cmd); err != nil {
		return fmt.Errorf("chaos: %s: %w", p.name, err)
	}
	p.starts++
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ended is in ProcessState
		if wasKilled(cmd.ProcessState) {
			p.noteKill(time.Now())
		}
	}()
	p.cmd, p.ended = cmd, ended
	return nil
}

func done(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// signal signals it, if it runs.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(sig) // gone already: as good
	}
}

// kill is kill -9, and waits.
func (p *process) kill() { p.end(syscall.SIGKILL) }

// stopWithin is how long a program may take to end when it is asked to.
const stopWithin = 20 * time.Second

// stop asks it to end, and waits. It returns an error if it had to be killed.
func (p *process) stop() error {
	late := time.AfterFunc(stopWithin, func() { p.signal(syscall.SIGKILL) })
	p.end(syscall.SIGTERM)
	if !late.Stop() {
		return fmt.Errorf("%s did not end within %v of SIGTERM", p.name, stopWithin)
	}
	return nil
}

func (p *process) end(sig syscall.Signal) {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	p.signal(sig)
	<-ended
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == cmd {
		p.cmd = nil
	}
}

// endedItself: it is wanted, and does not run. code is what it ended with.
func (p *process) endedItself() (code int, yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || !done(p.ended) {
		return 0, false
	}
	return p.cmd.ProcessState.ExitCode(), true
}

// killedItself: it has ended with SIGKILL, and nobody sent it.
func (p *process) killedItself() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || !done(p.ended) {
		return false
	}
	return wasKilled(p.cmd.ProcessState)
}

// wasKilled reports an end with SIGKILL.
func wasKilled(s *os.ProcessState) bool {
	status, ok := s.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

func (p *process) noteKill(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kills = append(p.kills, at)
}

// killedAt is when it was killed, each time.
func (p *process) killedAt() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.kills)
}

// rss is what the process holds, in MiB; 0: it does not run.
func (p *process) rss() (mib int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/statm")
	var size, resident int
	_, _ = fmt.Sscan(string(data), &size, &resident)
	return resident * os.Getpagesize() >> 20
}

// well asks the director how it is.
func (w *world) well(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	h, err := operator.AskHealth(ctx, w.data())
	if err == nil && !h.OK {
		err = errors.New(h.String())
	}
	return err
}
