package worker

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/agent"
	"retake/internal/bus/wire"
)

// played makes CODE the agent of a profile, simulated by a shell script. The agent must exit within 0.3 s of its last
// event.
func (w *world) played(profile, script string) {
	w.t.Helper()
	program := filepath.Join(w.t.TempDir(), "played")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	table, err := agent.Parse(agent.Builtin(), []byte("[[agent]]\nname = \""+profile+"\"\nprogram = '"+program+
		"'\nexit_seconds = 0.3\n"))
	if err != nil {
		w.t.Fatal(err)
	}
	plan, err := table.Expand(agent.Stage{Name: wire.StageCode, Agent: profile, Timeout: time.Minute})
	if err != nil {
		w.t.Fatal(err)
	}
	w.plan.Stages = []wire.StagePlan{plan, {
		Name: wire.StageValidate, Run: []string{testProgram(w.t)}, TimeoutSeconds: 60,
		Env: map[string]string{programEnv: "speak", "TEST_OUT": "validated"},
	}}
	w.plan.Unchanged, w.plan.StopGraceSeconds = true, 0.3
}

const (
	resultWell   = `echo '{"type":"result","subtype":"success","is_error":false,"result":"done"}'`
	resultFailed = `echo '{"type":"result","is_error":true,"api_error_status":529,"result":"Overloaded"}'`
	sleepsOn     = "\nsleep 600"
)

// lingering are agents that have reported their result and do not exit.
var lingering = map[string]struct {
	profile, script string
	want            string // reason, or empty for a success
}{
	"claude": {"claude-code", "echo x >parser.go\n" + resultWell + sleepsOn, ""},
	"ignores SIGTERM": {
		"claude-code", "trap '' TERM\necho x >parser.go\n" + resultWell + "\nsleep 600 & wait; sleep 600", "",
	},
	"a child in the way": {"claude-code", "echo x >parser.go\nsetsid sleep 600 &\n" + resultWell + sleepsOn, ""},
	"an error":           {"claude-code", "echo x >parser.go\n" + resultFailed + sleepsOn, "overloaded"},
	"a limit was seen later": {
		"claude-code",
		"echo x >parser.go\n" + resultWell + "\n" + `echo '{"type":"rate_limit_event"}'` + sleepsOn, "",
	},
	"codex": {
		"codex", "echo x >parser.go\n" + `echo '{"type":"turn.completed","usage":{"input_tokens":1}}'` + sleepsOn, "",
	},
	"opencode": {
		"opencode",
		"echo x >parser.go\n" + `echo '{"type":"step_finish","part":{"reason":"stop"}}'` + sleepsOn, "",
	},
	"nothing done": {"codex", `echo '{"type":"turn.completed","usage":{}}'` + sleepsOn, "unknown"},
}

// TestDeliversWorkOfALingeringAgent checks that an agent that has reported its result and does not exit is ended with
// its children, and that its work is validated. An error remains an error.
func TestDeliversWorkOfALingeringAgent(t *testing.T) {
	for name, row := range lingering {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.played(row.profile, row.script)
			code := w.run(t.Context())
			if validated := strings.Contains(w.out.String(), "validated"); validated != (row.want == "") {
				t.Errorf("validated: %v", validated)
			}
			if row.want != "" {
				if e := w.onlyError(); e.ErrorType != row.want {
					t.Errorf("%+v", e)
				}
				return
			}
			if code != ExitResult {
				t.Fatalf("exit %d: %+v", code, w.reports())
			}
			r, ok := w.reports()[0].(*wire.WorkerResult)
			if !ok || r.Stages[0].ExitCode != 0 || r.Stages[0].DurationMS > 30_000 {
				t.Errorf("%+v", w.reports()[0])
			}
		})
	}
}

// TestDeliversWhatIsStillGoingOn checks that an agent that continues after a possible last event is not ended.
func TestDeliversWhatIsStillGoingOn(t *testing.T) {
	const later = "\nsleep 1.2\necho x >parser.go\n"
	for name, row := range map[string]struct{ profile, script string }{
		"another turn": {
			"codex", `echo '{"type":"turn.completed","usage":{}}'; echo '{"type":"turn.started"}'` + later +
				`echo '{"type":"turn.completed","usage":{}}'`,
		},
		"a task in the background": {
			"claude-code", `echo '{"type":"system","subtype":"task_started","task_id":"b1"}'` + "\n" + resultWell + later +
				`echo '{"type":"system","subtype":"task_notification","task_id":"b1","status":"completed"}'` + "\n" +
				resultWell,
		},
		"it prints": {
			"claude-code", resultWell + strings.Repeat("\necho wait >&2\nsleep 0.15", 8) + "\necho x >parser.go",
		},
		"another try": {
			"pi", `echo '{"type":"message_end","message":{"role":"assistant","errorMessage":"429 slow down"}}'` + "\n" +
				`echo '{"type":"agent_end"}'; echo '{"type":"auto_retry_start","delayMs":1000,"errorMessage":"429"}'` +
				later + `echo '{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"ok"}],` +
				`"stopReason":"stop"}}'; echo '{"type":"agent_end"}'`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.played(row.profile, row.script)
			if code := w.run(t.Context()); code != ExitResult {
				t.Errorf("exit %d: %+v", code, w.reports()[0])
			}
		})
	}
}

// TestRefusedAnUnfinishedStream checks that an attempt fails if the agent's stream is incomplete, even with a changed
// file and exit code 0.
func TestRefusedAnUnfinishedStream(t *testing.T) {
	for name, row := range map[string]struct{ profile, script string }{
		"claude":      {"claude-code", `echo '{"type":"assistant","message":{"content":[]}}'`},
		"in silence":  {"claude-code", "true"},
		"second turn": {"codex", `echo '{"type":"turn.completed"}'; echo '{"type":"turn.started"}'`},
		"gemini":      {"gemini", `echo '{"type":"tool_use","tool_name":"replace"}'`},
		"copilot":     {"copilot", `echo '{"type":"assistant.message","data":{"content":"I begin."}}'`},
		"opencode":    {"opencode", `echo '{"type":"step_finish","part":{"reason":"tool-calls"}}'`},
		"qwen":        {"qwen", `echo '{"type":"system","subtype":"init"}'`},
		"cline":       {"cline", `echo '{"type":"agent_event","event":{"type":"usage","inputTokens":1}}'`},
		"continue":    {"continue", "true"},
		"pi":          {"pi", `echo '{"type":"agent_start"}'`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.played(row.profile, "echo x >parser.go\n"+row.script)
			w.run(t.Context())
			e := w.onlyError()
			if e.ErrorType != "unknown" || e.Stage != wire.StageCode || !strings.Contains(e.Message, agent.Incomplete) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestResultAtTheTimeLimit stops an agent at its limit. Work with a result is validated.
func TestResultAtTheTimeLimit(t *testing.T) {
	for name, row := range map[string]struct {
		last string // event
		code ExitCode
	}{
		"it waited for a task":  {"", ExitResult},
		"it worked on":          {claudeWork, ExitError},
		"it had a result, late": {claudeWell, ExitResult},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := agentPlan(t, "claude-code", nil)
				late := minute(143)
				late.timedOut, late.signal = true, "SIGTERM"
				bus, r := newFakeBus(), &fakeRunner{script: []exit{late, minute(0)}}
				r.onRun = prints(`{"type":"system","subtype":"task_started","task_id":"b"}`, claudeWell, row.last)
				if code := testWorker(t, p, bus, r).run(t.Context()); code != row.code {
					t.Errorf("exit %d: %+v", code, bus.reports)
				}
			})
		})
	}
}

// TestRefusedAtALimit refuses half a change from a program with exit code 0 whose last words state a limit.
func TestRefusedAtALimit(t *testing.T) {
	const half = "echo x >parser.go\n"
	for name, row := range map[string]struct{ profile, script, want string }{
		"a script":  {"", "echo \"You've hit your session limit · resets 11:40pm\"", "quota_exhausted"},
		"on stderr": {"", "echo Editing\necho 'API Error: 429 Too Many Requests' >&2", "rate_limited"},
		"a text agent": {
			"crush", "echo Editing\necho ERROR >&2; echo 'Rate limit reached for gpt-4o. Try again in 6s.' >&2",
			"rate_limited",
		},
		"an answer": {
			"claude-code", `echo '{"type":"result","is_error":false,"result":"Credit balance is too low"}'`,
			"quota_exhausted",
		},
		"a mention": {"", "echo 'I raised the rate limit to 100.'", ""},
		"an overcome limit": {
			"", "echo 'Rate limit exceeded, retrying' >&2\nsleep 0.4\necho 'The parser is fixed.'", "",
		},
		"an answer about one": {
			"claude-code", `echo '{"type":"result","is_error":false,"result":"I raised the rate limit to 100."}'`, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.played(cmp.Or(row.profile, "crush"), half+row.script)
			if row.profile == "" {
				code := &w.plan.Stages[0]
				code.Run, code.Agent = code.Run[:1], nil
			}
			code := w.run(t.Context())
			if row.want == "" {
				if code != ExitResult {
					t.Errorf("exit %d: %+v", code, w.reports()[0])
				}
				return
			}
			if e := w.onlyError(); e.ErrorType != row.want || e.Stage != wire.StageCode {
				t.Errorf("%+v", e)
			}
		})
	}
}
