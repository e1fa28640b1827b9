package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/operator"
	"retake/internal/sys/tied"
)

// line is one line of the director's log, as far as the demo reads it.
type line struct {
	at      time.Time // when it was read
	Message string    `json:"msg"`
	Level   string    `json:"level"`
	Issue   string    `json:"issue"`
	From    string    `json:"from"`
	To      string    `json:"to"`
	Event   string    `json:"event"`
	Reason  string    `json:"reason"`
	Action  string    `json:"action"`
	Cause   string    `json:"cause"`
	Branch  string    `json:"branch"`
	URL     string    `json:"url"`
	Error   string    `json:"error"`
	Effect  string    `json:"effect"`
	Attempt any       `json:"attempt"` // a number, or an attempt id
}

// directorProcess is the director's process. Its methods belong to one goroutine.
type directorProcess struct {
	argv  []string
	env   []string
	lines chan line // of all processes that are started one after the other
	log   io.Writer // gets them, too, as they are; used while a process lives

	cmd     *exec.Cmd
	started time.Time
	ended   chan struct{} // closed once the process is gone and its log is read
}

func newDirectorProcess(s *testbed, log io.Writer) *directorProcess {
	return &directorProcess{
		argv: []string{s.director, "run", "--config", s.config(), "--worker-binary", s.worker},
		env:  directorEnvironment(os.Environ(), s.token), lines: make(chan line, 256), log: log,
	}
}

// childEnvironment is the user's, without what would configure the director, and with the demo's token: nobody's real
// one gets there.
func directorEnvironment(environ []string, token string) []string {
	out := make([]string, 0, len(environ)+3)
	for _, kv := range environ {
		if !strings.HasPrefix(kv, config.EnvPrefix) && !strings.HasPrefix(kv, "GITHUB_TOKEN=") {
			out = append(out, kv)
		}
	}
	return append(out, "GITHUB_TOKEN="+token, "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
}

func (c *directorProcess) start() error {
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Env = c.env
	// A group of its own: Ctrl-C in the terminal is for the demo. It dies with the demo, even if that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := cmd.StderrPipe()
	if err == nil {
		err = tied.Start(cmd)
	}
	if err != nil {
		return fmt.Errorf("demo: director: %w", err)
	}
	c.cmd, c.started, c.ended = cmd, time.Now(), make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		c.read(log)
		_ = cmd.Wait() // how it ended is in ProcessState
	}(c.ended)
	return nil
}

// read passes the log on, line by line. A killed process leaves half a line behind: it is passed on as text.
func (c *directorProcess) read(log io.Reader) {
	r := bufio.NewReader(log)
	for {
		text, err := r.ReadString('\n')
		if text = strings.TrimSpace(text); text != "" {
			var l line
			_ = json.Unmarshal([]byte(text), &l) // what is no JSON is kept by logTail only
			l.at = time.Now()
			fmt.Fprintln(c.log, text)
			c.lines <- l
		}
		if err != nil {
			return
		}
	}
}

// kill ends the process with SIGKILL and waits. The lines that are still there are dropped.
func (c *directorProcess) kill() {
	if c.cmd == nil {
		return
	}
	_ = c.cmd.Process.Kill() // gone already: as good
	c.await()
	c.cmd = nil
}

// stop asks the process to end, and kills it if it takes more than 15 s.
func (c *directorProcess) stop() {
	if c.cmd == nil {
		return
	}
	late := time.AfterFunc(15*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // gone already: as good
	c.await()
	c.cmd = nil
}

func (c *directorProcess) await() {
	for {
		select {
		case <-c.lines:
		case <-c.ended:
			return
		}
	}
}

// snapshot asks the director for its state; ok is false when it does not answer: it starts, or was killed.
func (c *directorProcess) snapshot(ctx context.Context, dataDir string) (s wire.Snapshot, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	s, err := operator.AskSnapshot(ctx, dataDir)
	return s, err == nil && s.Director.Phase != "UNRESPONSIVE"
}

// errDirector: the director ended although nobody asked it to.
var errDirector = errors.New("demo: the director ended by itself")
