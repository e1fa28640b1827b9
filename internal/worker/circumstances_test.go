package worker

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"retake/internal/agent"
	"retake/internal/bus/wire"
)

var update = flag.Bool("update", false, "record the circumstances of failures again, for tests of other packages")

// recordedCircumstances is the directory with the records for tests of other packages.
const recordedCircumstances = "../recovery/circumstances/testdata"

// fails ends a program with an error.
const fails = "echo 'it failed' >&2; exit 1"

// recorded are runs whose circumstances tests of other packages use. Each runs one stage with the real worker.
var recorded = []struct {
	name   string
	stage  agent.Stage
	script string // script of the stage's program, or empty if the program is missing
	env    []string
	more   func(*wire.Plan)
}{
	{"npm", agent.Stage{Name: "START", Run: []string{"npm", "ci"}}, fails, nil, nil},
	{
		"npm-timeout",
		agent.Stage{Name: "START", Run: []string{"npm", "ci"}, Timeout: time.Second / 4},
		"sleep 60",
		nil, nil,
	},
	{"npm-token", agent.Stage{Name: "START", Run: []string{"npm", "ci"}}, fails, []string{"NPM_TOKEN=npm_x"}, nil},
	{"claude", agent.Stage{Name: "CODE", Agent: "claude-code"}, "exit 1", anthropicKey, nil},
	{"claude-process", agent.Stage{Name: "CODE", Agent: "claude-code"}, "exit 1", anthropicKey, inProcess},
	{
		"claude-refused",
		agent.Stage{Name: "CODE", Agent: "claude-code"},
		`echo '{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"Invalid API key"}'; exit 1`,
		anthropicKey, nil,
	},
	{
		"openai-overloaded",
		agent.Stage{Name: "CODE", Agent: "codex"},
		`echo '{"type":"turn.failed","error":{"message":"unexpected status 503 Service Unavailable"}}'; exit 1`, nil, nil,
	},
	{
		"claude-timeout",
		agent.Stage{Name: "CODE", Agent: "claude-code", Timeout: time.Second / 4},
		"sleep 60",
		anthropicKey, nil,
	},
	{
		"claude-watchdog",
		agent.Stage{Name: "CODE", Agent: "claude-code"},
		"sleep 60", anthropicKey,
		func(p *wire.Plan) { p.WatchdogSeconds = 1 },
	},
	{"agent-script", agent.Stage{Name: "CODE", Run: []string{"./agent.sh"}}, "exit 1", nil, inProcess},
	{"go-build", agent.Stage{Name: "VALIDATE", Run: []string{"go", "build", "./..."}}, fails, nil, nil},
	{"go-test", agent.Stage{Name: "VALIDATE", Run: []string{"go", "test", "./..."}}, fails, nil, nil},
	{"golangci-lint", agent.Stage{Name: "VALIDATE", Run: []string{"golangci-lint", "run"}}, fails, nil, nil},
	{"golangci-lint-process", agent.Stage{Name: "VALIDATE", Run: []string{"golangci-lint", "run"}}, "", nil, inProcess},
	{"make-lint", agent.Stage{Name: "VALIDATE", Run: []string{"make", "lint"}}, fails, nil, nil},
	{"check", agent.Stage{Name: "VALIDATE", Run: []string{"./check.sh"}}, fails, nil, nil},
	{"check-missing", agent.Stage{Name: "VALIDATE", Run: []string{"./check.sh"}}, "", nil, nil},
	{
		"check-timeout",
		agent.Stage{Name: "VALIDATE", Run: []string{"./check.sh"}, Timeout: time.Second / 4},
		"sleep 60", nil, nil,
	},
}

var anthropicKey = []string{"ANTHROPIC_API_KEY=sk-ant-x"}

func inProcess(p *wire.Plan) { p.Runtime = "process" }

// TestRecordedCircumstances compares the circumstances that a real worker reports with the recorded ones.
func TestRecordedCircumstances(t *testing.T) {
	for _, x := range recorded {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t)
			s, err := agent.Builtin().Expand(x.stage)
			if err != nil {
				t.Fatal(err)
			}
			s.Number, s.TimeoutSeconds = 3, x.stage.Timeout.Seconds()
			w.plan.Stages, w.plan.Runtime = []wire.StagePlan{s}, "docker"
			w.plan.FixAttempts, w.plan.WatchdogSeconds = 1, 60
			bin := t.TempDir()
			file := filepath.Join(bin, s.Run[0])
			if strings.HasPrefix(s.Run[0], "./") {
				file = filepath.Join(w.plan.Workdir, s.Run[0])
			}
			if x.script != "" {
				if err := os.WriteFile(file, []byte("#!/bin/sh\n"+x.script+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			w.env = append([]string{"PATH=" + bin + ":/usr/bin:/bin"}, x.env...)
			if x.script == "" {
				w.env = append([]string{"PATH=" + bin}, x.env...)
			}
			if x.more != nil {
				x.more(w.plan)
			}
			w.run(t.Context())
			compareRecord(t, x.name, w.onlyError())
		})
	}
}

func compareRecord(t *testing.T, name string, e *wire.WorkerError) {
	t.Helper()
	got, err := json.MarshalIndent(e.Circumstances, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(recordedCircumstances, name+".json")
	if *update {
		if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != string(got)+"\n" {
		t.Errorf("recorded %s (%v), now %s\nRun: go test ./internal/worker -run TestRecordedCircumstances -update",
			want, err, got)
	}
}
