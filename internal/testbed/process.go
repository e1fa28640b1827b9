package testbed

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"retake/internal/config"
	"retake/internal/sys/tied"
)

// Process is a program that is ended and started again and again. Its methods may be called from any goroutine.
type Process struct {
	Name string
	Argv []string
	Env  []string
	Log  string            // file that gets what it prints
	Line func(text string) // instead of Log: gets each line of its standard error, and the half one of a killed process

	mu      sync.Mutex
	cmd     *exec.Cmd // nil: none is wanted
	started time.Time
	ended   chan struct{}
	kills   []time.Time // ends with SIGKILL, by whomever
}

// DirectorEnv is environ without what would configure a director, and with the stand-in's token: nobody's real one gets
// there.
func DirectorEnv(environ []string, token string) []string {
	out := make([]string, 0, len(environ)+3)
	for _, kv := range environ {
		if !strings.HasPrefix(kv, config.EnvPrefix) && !strings.HasPrefix(kv, "GITHUB_TOKEN=") {
			out = append(out, kv)
		}
	}
	return append(out, "GITHUB_TOKEN="+token, "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
}

// Start starts it, unless it runs.
func (p *Process) Start() error { return p.StartWith() }

// StartWith is Start with more variables.
func (p *Process) StartWith(more ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && !done(p.ended) {
		return nil
	}
	cmd := exec.Command(p.Argv[0], p.Argv[1:]...)
	cmd.Env = append(slices.Clone(p.Env), more...)
	// A group of its own: Ctrl-C in the terminal is for this program alone. It dies with this program.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var lines io.Reader
	var err error
	if p.Line != nil {
		lines, err = cmd.StderrPipe()
	} else {
		var log *os.File
		log, err = os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		defer func() { _ = log.Close() }()
		cmd.Stdout, cmd.Stderr = log, log
	}
	if err == nil {
		err = tied.Start(cmd)
	}
	if err != nil {
		return fmt.Errorf("testbed: %s: %w", p.Name, err)
	}
	p.cmd, p.started, p.ended = cmd, time.Now(), make(chan struct{})
	go p.await(cmd, lines, p.ended)
	return nil
}

// await reads what a process prints, until it has ended.
func (p *Process) await(cmd *exec.Cmd, lines io.Reader, ended chan struct{}) {
	defer close(ended)
	if lines != nil {
		for r := bufio.NewReader(lines); ; {
			text, err := r.ReadString('\n')
			if text = strings.TrimSpace(text); text != "" {
				p.Line(text)
			}
			if err != nil {
				break
			}
		}
	}
	_ = cmd.Wait() // how it ended is in ProcessState
	if wasKilled(cmd.ProcessState) {
		p.NoteKill(time.Now())
	}
}

func done(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Started is when it was started last.
func (p *Process) Started() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started
}

// Ended is closed once the process that was started last is gone and its last line was read.
func (p *Process) Ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// Signal signals it, if it runs.
func (p *Process) Signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(sig) // gone already: as good
	}
}

// Kill is kill -9, and waits.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

// stopWithin is how long a program may take to end when it is asked to.
const stopWithin = 20 * time.Second

// Stop asks it to end, and waits. It returns an error if it had to be killed.
func (p *Process) Stop() error {
	late := time.AfterFunc(stopWithin, func() { p.Signal(syscall.SIGKILL) })
	p.end(syscall.SIGTERM)
	if !late.Stop() {
		return fmt.Errorf("testbed: %s did not end within %v of SIGTERM", p.Name, stopWithin)
	}
	return nil
}

func (p *Process) end(sig syscall.Signal) {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	p.Signal(sig)
	<-ended
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == cmd {
		p.cmd = nil
	}
}

// EndedItself returns what it ended with, if it is wanted and does not run.
func (p *Process) EndedItself() (state *os.ProcessState, yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || !done(p.ended) {
		return nil, false
	}
	return p.cmd.ProcessState, true
}

// KilledItself reports that it has ended with SIGKILL, which nobody sent.
func (p *Process) KilledItself() bool {
	state, ended := p.EndedItself()
	return ended && wasKilled(state)
}

// wasKilled reports an end with SIGKILL.
func wasKilled(s *os.ProcessState) bool {
	status, ok := s.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// NoteKill adds to the times that KilledAt returns.
func (p *Process) NoteKill(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kills = append(p.kills, at)
}

// KilledAt is when it was killed, each time.
func (p *Process) KilledAt() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.kills)
}

// PID is the process's id; 0: it does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// RSS is what the process holds, in MiB; 0: it does not run.
func (p *Process) RSS() (mib int) {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/statm")
	var size, resident int
	_, _ = fmt.Sscan(string(data), &size, &resident)
	return resident * os.Getpagesize() >> 20
}
