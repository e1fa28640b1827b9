package worker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"retake/internal/agent"
	"retake/internal/bus/wire"
)

const denied = `{"type":"result","subtype":"success","is_error":false,"result":"I could not.","permission_denials":[{"tool_name":"Bash","tool_input":{"command":"rm -rf x"}}]}`

// exitsWithZero are the cases of TestExitZeroIsNoSuccess.
var exitsWithZero = map[string]struct {
	agent   string
	lines   []string
	changes string // file that it writes, if any
	want    string // reason, or "" for a success
	status  int
}{
	"an error in the JSON only":    {"qwen", []string{qwen429}, "parser.go", "rate_limited", 429},
	"an empty answer":              {"pi", []string{`{"type":"agent_end","messages":[]}`}, "", "unknown", 0},
	"an empty answer and a change": {"pi", []string{`{"type":"agent_end","messages":[]}`}, "parser.go", "", 0},
	"an empty answer and a session": {
		"pi",
		[]string{`{"type":"agent_end","messages":[]}`},
		".pi/sessions/1.jsonl",
		"unknown", 0,
	},
	"an empty answer and a log": {
		"pi",
		[]string{`{"type":"agent_end","messages":[]}`},
		"build.log",
		"unknown", 0,
	},
	"nothing at all": {"continue", nil, "", "unknown", 0},
	"only a title": {
		"gemini",
		[]string{"\x1b]0;agent\a\x1b[?25l\x1b[2K\x1b[?25h"},
		".gemini/tmp/x", "unknown", 0,
	},
	"cut, but something was changed": {"opencode", nil, "parser.go", "unknown", 0},
	"cut, and only its database":     {"opencode", nil, ".opencode/opencode.db", "unknown", 0},
	"denied":                         {"claude-code", []string{denied}, "", "needs_human", 0},
	"denied, but something changed":  {"claude-code", []string{denied}, "parser.go", "", 0},
	"well":                           {"claude-code", []string{claudeWell}, "", "", 0},
}

// TestExitZeroIsNoSuccess checks that the stream's result and the changes of the work tree decide.
func TestExitZeroIsNoSuccess(t *testing.T) {
	for name, row := range exitsWithZero {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := agentPlan(t, row.agent, nil)
				p.StatePaths = agent.Builtin().StatePaths([]agent.Stage{{Name: wire.StageCode, Agent: row.agent}})
				writeFile(t, p, ".gitignore", "*.log\n")
				ended := minute(0)
				ended.stdout, ended.stderr = tail{kept: []byte(strings.Join(row.lines, "\n"))}, tail{}
				bus, r := newFakeBus(), &fakeRunner{script: []exit{ended, minute(0)}}
				r.onRun = func(c command) {
					if c.stdout != nil && row.changes != "" {
						writeFile(t, p, row.changes, "something")
					}
					prints(row.lines...)(c)
				}
				w := testWorker(t, p, bus, r)
				w.classify = classifyFailure
				code := w.run(t.Context())
				if row.want == "" {
					if code != ExitResult {
						t.Errorf("exit %d, %+v", code, bus.reports)
					}
					return
				}
				e := bus.onlyError(t)
				if e.ErrorType != row.want || e.HTTPStatus != row.status || *e.ExitCode != 0 || e.Tool != row.agent ||
					e.Usage == nil || e.Usage.PaidCalls != 1 {
					t.Errorf("%+v", e)
				}
				if !strings.Contains(e.Message, "exit code 0") {
					t.Errorf("message %q", e.Message)
				}
			})
		})
	}
}

// TestFixRoundWithoutChange checks that, if the first round has left work, validation decides.
func TestFixRoundWithoutChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := agentPlan(t, "claude-code", nil)
		p.FixAttempts, p.Unchanged = 2, true
		bus, r := newFakeBus(), &fakeRunner{script: []exit{minute(0), minute(1), minute(0), minute(0)}}
		r.onRun = func(c command) {
			if len(r.runs) == 1 {
				writeFile(t, p, "parser.go", "something")
			}
			prints(claudeWell)(c)
		}
		if code := testWorker(t, p, bus, r).run(t.Context()); code != ExitResult || len(r.runs) != 4 {
			t.Errorf("exit %d after %d runs: %+v", code, len(r.runs), bus.reports)
		}
	})
}

// writeFile puts a file into the work tree.
func writeFile(t *testing.T, p *wire.Plan, name, text string) {
	t.Helper()
	file := filepath.Join(p.Workdir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// TestFingerprint checks that a fingerprint covers the work. It omits an agent's own files, and ignored files,
// unless the base has them.
func TestFingerprint(t *testing.T) {
	p := testPlan(t)
	p.StatePaths, p.Tracked = []string{".crush"}, []string{".crush/shared.json", "kept.log"}
	f, err := openStateDir(p.Workdir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	a := &attempt{plan: p, folder: f}
	put := func(name, text string) {
		file := filepath.Join(p.Workdir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	put(".gitignore", "*.log\n")
	put("a/b.go", "x")
	put(".crush/shared.json", "x")
	put("kept.log", "x")
	changes := func(name string) bool {
		before := a.fingerprint()
		put(name, "changed "+name)
		after := a.fingerprint()
		return before != nil && after != nil && !sameWork(before, after)
	}
	for _, name := range []string{".retake/x", ".git/index", "sub/.git/index", ".crush/crush.db", "build.log"} {
		if changes(name) {
			t.Errorf("%s counts", name)
		}
	}
	for _, name := range []string{"a/b.go", "new.go", ".crush/shared.json", "kept.log", ".crushed", ".gitignore"} {
		if !changes(name) {
			t.Errorf("%s does not count", name)
		}
	}
}
