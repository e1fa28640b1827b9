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
	"retake/internal/sys/pdeathsig"
)

// Process is a program that can be stopped and restarted repeatedly. Its methods are safe for concurrent use.
type Process struct {
	Name string
	Argv []string
	Env  []string
	Log  string            // path of the file for the program's output
	Line func(text string) // replaces Log; receives each line of standard error, even an incomplete last one

	mu      sync.Mutex
	cmd     *exec.Cmd // nil unless the program should be running
	started time.Time
	ended   chan struct{}
	kills   []time.Time // times at which a SIGKILL from any sender ended the program
}

// DirectorEnv returns environ with the GitHub stand-in's token, but without variables that configure a director, so a
// real token never reaches the director.
func DirectorEnv(environ []string, token string) []string {
	out := make([]string, 0, len(environ)+3)
	for _, kv := range environ {
		if !strings.HasPrefix(kv, config.EnvPrefix) && !strings.HasPrefix(kv, "GITHUB_TOKEN=") {
			out = append(out, kv)
		}
	}
	return append(out, "GITHUB_TOKEN="+token, "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
}

// Start starts the program unless it is running.
func (p *Process) Start() error { return p.StartWith() }

// StartWith is like Start, with additional environment variables.
func (p *Process) StartWith(more ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && !done(p.ended) {
		return nil
	}
	cmd := exec.Command(p.Argv[0], p.Argv[1:]...)
	cmd.Env = append(slices.Clone(p.Env), more...)
	// In its own process group, the child does not get the terminal's Ctrl-C. The kernel kills it when this program
	// ends.
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
		err = pdeathsig.Start(cmd)
	}
	if err != nil {
		return fmt.Errorf("testbed: %s: %w", p.Name, err)
	}
	p.cmd, p.started, p.ended = cmd, time.Now(), make(chan struct{})
	go p.await(cmd, lines, p.ended)
	return nil
}

// await reads the process's output until the process has ended.
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
	_ = cmd.Wait() // ProcessState holds the result
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

// Started returns the time of the last start.
func (p *Process) Started() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started
}

// Ended returns a channel that is closed once the most recently started process has ended and its last line has been
// read.
func (p *Process) Ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// Signal sends a signal if the process is running.
func (p *Process) Signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(sig) // the process may have ended
	}
}

// Kill sends SIGKILL and waits for the process.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

// stopWithin is the time limit for a program to end after a signal.
const stopWithin = 20 * time.Second

// Stop sends SIGTERM and waits for the process. It returns an error if the process had to be killed after stopWithin.
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

// EndedItself returns the process's final state if it ended although it should be running.
func (p *Process) EndedItself() (state *os.ProcessState, yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || !done(p.ended) {
		return nil, false
	}
	return p.cmd.ProcessState, true
}

// KilledItself reports whether a SIGKILL that did not come from Kill or Stop ended the process.
func (p *Process) KilledItself() bool {
	state, ended := p.EndedItself()
	return ended && wasKilled(state)
}

// wasKilled reports whether SIGKILL ended a process.
func wasKilled(s *os.ProcessState) bool {
	status, ok := s.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// NoteKill records a time for KilledAt.
func (p *Process) NoteKill(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kills = append(p.kills, at)
}

// KilledAt returns the times of all kills.
func (p *Process) KilledAt() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.kills)
}

// PID returns the process's id, or 0 if it is not running.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// RSS returns the process's resident memory in MiB, or 0 if the process is not running.
func (p *Process) RSS() (mib int) {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/statm")
	var size, resident int
	_, _ = fmt.Sscan(string(data), &size, &resident)
	return resident * os.Getpagesize() >> 20
}
