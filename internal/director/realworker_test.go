package director

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director/operator"
	"retake/internal/fsm"
	"retake/internal/timeline"
)

// newReal returns a director that runs the real worker as plain processes. Each program is a shell script in a
// directory of the stages' PATH, so a profile finds "claude" as on a real machine. Only the agent is played.
func newReal(t *testing.T, programs map[string]string, stages ...config.Stage) *harness {
	t.Helper()
	s := newHarness(t, nil)
	c := &s.config
	base := filepath.Dir(c.Director.DataDir)
	placeWorker(t, filepath.Join(base, "worker"))
	bin := filepath.Join(base, "bin")
	must(t, os.MkdirAll(bin, 0o755))
	for name, script := range programs {
		must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	must(t, os.MkdirAll(c.Director.DataDir, 0o755))
	for dir := base; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755)) // processes of another user pass through
	}
	c.Containers.Runtime = "process"
	c.Containers.Env = map[string]string{"PATH": bin + ":" + "/usr/local/bin:/usr/bin:/bin"}
	c.Director.HTTPListen = "127.0.0.1:0"
	c.Stages = stages
	t.Cleanup(func() {
		s.stop()
		endProcesses(t, c.Director.DataDir)
	})
	return s
}

// endProcesses ends the workers that a director leaves running, because a test owns its machine's processes.
func endProcesses(t *testing.T, dataDir string) {
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, file := range found {
		line, _ := os.ReadFile(file) // a process may have ended
		if strings.Contains(string(line), dataDir) {
			endProcess(file)
		}
	}
}

func endProcess(file string) {
	var pid int
	for _, c := range strings.TrimSuffix(strings.TrimPrefix(file, "/proc/"), "/cmdline") {
		pid = 10*pid + int(c-'0')
	}
	if p, err := os.FindProcess(pid); err == nil && pid != os.Getpid() {
		_ = p.Kill()
	}
}

// code returns a CODE stage that runs a program.
func code(argv ...string) config.Stage {
	return config.Stage{Name: "CODE", Run: argv, Timeout: time.Minute}
}

// profile returns a CODE stage that runs the agent of a profile.
func profile(name string) config.Stage {
	return config.Stage{Name: "CODE", Agent: name, Timeout: time.Minute}
}

// question waits until an issue is blocked, and returns the last comment that asks a question.
func (s *harness) question(key string) string {
	s.t.Helper()
	s.until("a question on "+key, s.labelled(key, "agent-blocked"))
	for _, c := range s.github.Issue(key).Comments {
		if strings.Contains(c.Body, "### Retake needs a human") {
			return c.Body
		}
	}
	s.t.Fatalf("%s is blocked without a question: %v", key, s.github.Issue(key).Comments)
	return ""
}

// explained returns what `director explain` shows about an issue.
func (s *harness) explained(key string) timeline.Task {
	s.t.Helper()
	told, err := operator.AskTask(s.t.Context(), s.config.Director.DataDir, fsm.IssueKey(key), time.Time{})
	must(s.t, err)
	return told
}

// TestAsksWithTheRealWorker checks the harness against the real worker and the real bus. A program that fails with a
// message leads to a question that quotes the message.
func TestAsksWithTheRealWorker(t *testing.T) {
	t.Parallel()
	if err := container.CanKeepApart(); err != nil {
		t.Logf("workers run as this user: %v", err)
	}
	s := newReal(t, map[string]string{"agent": `echo "fatal: cannot log in to the model" >&2; exit 1`}, code("agent"))
	s.config.Director.MaxRetries = 1
	key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	if q := s.question(key); !strings.Contains(q, "cannot log in to the model") {
		t.Errorf("the question does not quote the program:\n%s", q)
	}
}

// TestDecidesForTheCallerThatAStageStates checks rows that differ from the rows for the default caller.
func TestDecidesForTheCallerThatAStageStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ preset, stage, caller, says, row, asks string }{
		{
			"gdd", "START", "figma-probe", "HTTP 401 Unauthorized", "gdd.auth_error@figma-probe",
			"Sign in to Figma again.",
		},
		{"gdd", "VALIDATE", "update-check", "read ECONNRESET", "gdd.*@update-check", "skipped the task"},
		{
			"gdd", "VALIDATE", "mcp-transport", "MCP server figma is not registered",
			"gdd.tool_not_found@mcp-transport", "looked for it again",
		},
		{"prp", "DONE", "cleanup", "No space left on device", "prp.*@cleanup", "skipped the task"},
	} {
		t.Run(c.preset+" "+c.caller, func(t *testing.T) {
			t.Parallel()
			fails := config.Stage{Name: c.stage, Run: []string{"fails"}, Caller: c.caller, Timeout: time.Minute}
			stages := []config.Stage{code("agent"), fails}
			if c.stage == "START" {
				stages = []config.Stage{fails, code("agent")}
			}
			s := newReal(t, map[string]string{
				"agent": "echo done >> work.txt",
				"fails": `echo "` + c.says + `" >&2; exit 1`,
			}, stages...)
			s.config.Recovery.Preset = c.preset
			key := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
			s.start()
			question := s.question(key)
			told, err := json.Marshal(s.explained(key))
			must(t, err)
			events, err := os.ReadFile(filepath.Join(s.config.Director.DataDir, "events.jsonl"))
			must(t, err)
			if !strings.Contains(string(told), `"row":"`+c.row+`"`) || !strings.Contains(question, c.asks) {
				t.Errorf("want row %s, and a question with %q, got %s\n%s", c.row, c.asks, told, question)
			}
			if !strings.Contains(string(events), `"caller":"`+c.caller+`"`) {
				t.Errorf("events.jsonl lacks the caller: %s", events)
			}
		})
	}
}
