package worker

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"retake/internal/agent"
	"retake/internal/bus/wire"
)

// agentPlan returns a plan with an agent as CODE.
func agentPlan(t *testing.T, name string, more func(*agent.Stage)) *wire.Plan {
	t.Helper()
	p := testPlan(t)
	s := agent.Stage{Name: wire.StageCode, Agent: name, Timeout: 30 * time.Minute}
	if more != nil {
		more(&s)
	}
	plan, err := agent.Builtin().Expand(s)
	if err != nil {
		t.Fatal(err)
	}
	p.Stages[0] = plan
	p.AttemptFile = &wire.AttemptFile{
		AttemptID: p.AttemptID, Attempt: 1, Issue: wire.IssueRef{
			Key:   "acme/widgets#21",
			Title: "The parser drops a line", Body: "Please mend it.",
		},
	}
	return p
}

// prints simulates a program that prints lines to stdout when it starts, and then takes a minute.
func prints(lines ...string) func(command) {
	return func(c command) {
		if c.stdout != nil {
			_, _ = io.WriteString(c.stdout, strings.Join(lines, "\n")+"\n")
		}
	}
}

const (
	claudeWork = `{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","name":"Edit","input":{"file_path":"parser.go"}}],"usage":{"input_tokens":70,"output_tokens":30}}}`
	claudeWell = `{"type":"result","subtype":"success","is_error":false,"result":"done","total_cost_usd":0.25,"usage":{"input_tokens":150,"output_tokens":50}}`
	claude429  = `{"type":"system","subtype":"api_retry","attempt":1,"max_retries":2,"retry_delay_ms":30000,"error_status":429,"error":"rate_limit"}`
	qwen429    = `[{"type":"result","subtype":"success","is_error":false,"result":"[API Error: 429 Rate limit reached. Please try again in 6.6s.]"}]`
)

// TestAgentStage checks the command, its environment, its files, and its reports.
func TestAgentStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := agentPlan(t, "claude-code", func(s *agent.Stage) { s.Model, s.AlternativeModel = "opus", "sonnet" })
		p.Stages[0].Agent.Files = []wire.PlanFile{{Name: "x.json", Content: "{}"}}
		p.Stages[0].Agent.Env = append(p.Stages[0].Agent.Env, "WHERE={files}/x.json")
		bus, r := newFakeBus(), &fakeRunner{script: []exit{minute(0), minute(0)}, onRun: prints(claudeWork, claudeWell)}
		w := testWorker(t, p, bus, r)
		w.env["API_TIMEOUT_MS"] = "77"
		if code := w.run(t.Context()); code != ExitResult {
			t.Fatalf("exit %d: %+v", code, bus.reports)
		}
		c := r.runs[0]
		prompt := c.argv[2]
		if c.argv[0] != "claude" || c.argv[1] != "-p" || !strings.Contains(prompt, "> Please mend it.") ||
			!slices.Equal(c.argv[len(c.argv)-2:], []string{"--model", "opus"}) {
			t.Errorf("%q", c.argv)
		}
		for _, want := range []string{
			"CLAUDE_CODE_MAX_RETRIES=2", "API_TIMEOUT_MS=77", "RETAKE_MODEL=opus",
			"RETAKE_BUDGET_RESOURCE=model.anthropic",
			"WHERE=" + filepath.Join(p.Workdir, agentFiles, "x.json"),
		} {
			if !slices.Contains(c.env, want) {
				t.Errorf("no %s in %q", want, c.env)
			}
		}
		if readFile(t, p, agentFiles+"/x.json") != "{}" {
			t.Error("its file is not there")
		}
		if r.runs[1].stdout != nil {
			t.Error("the output of an ordinary program is read as an agent's")
		}
		want := wire.Usage{Tokens: 200, CostUSD: 0.25, PaidCalls: 1}
		if res := bus.only(t).(*wire.WorkerResult); res.Usage == nil || *res.Usage != want {
			t.Errorf("%+v", res.Usage)
		}
		if !slices.ContainsFunc(bus.beats, func(h wire.Heartbeat) bool {
			return h.Usage != nil && *h.Usage == want && h.State.Stage == wire.StageCode &&
				h.State.Progress.Step == "Edit parser.go"
		}) {
			t.Errorf("no heartbeat has the usage while the agent runs: %+v", bus.beats)
		}
	})
}

// TestStepsAreFewEnough checks that steps are reported only at intervals, and that the newest one is reported at the
// end.
func TestStepsAreFewEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := agentPlan(t, "claude-code", nil)
		bus, r := newFakeBus(), &fakeRunner{script: []exit{minute(0), minute(0)}}
		r.onRun = func(c command) {
			for range 100 {
				prints(claudeWork)(c)
				time.Sleep(200 * time.Millisecond)
			}
			prints(claudeWell)(c)
		}
		testWorker(t, p, bus, r).run(t.Context())
		steps := 0
		for _, s := range bus.story() {
			if s == "progress CODE" {
				steps++
			}
		}
		if steps < 4 || steps > 7 { // 20 s of steps, plus the one at the beginning
			t.Errorf("%d steps: %q", steps, bus.story())
		}
	})
}

// TestEvidenceOfAnAgent checks that the report has the stream's errors, masked, and the meaning of an exit code.
func TestEvidenceOfAnAgent(t *testing.T) {
	const limited = `{"type":"error","error":{"name":"APIError","data":{"message":"Not you, hunter2-hunter2","statusCode":429,"isRetryable":true,"responseHeaders":{"retry-after":"90","set-cookie":"x"}}}}`
	synctest.Test(t, func(t *testing.T) {
		p := agentPlan(t, "opencode", func(s *agent.Stage) { s.Model = "openai/gpt-5.1" })
		p.Secrets = []string{"hunter2-hunter2"}
		bus, r := newFakeBus(), &fakeRunner{script: []exit{minute(1)}, onRun: prints(limited)}
		w := testWorker(t, p, bus, r)
		w.classify = classifyFailure
		w.run(t.Context())
		e := bus.onlyError(t)
		if e.HTTPStatus != 429 || e.Headers["retry-after"] != "90" || len(e.Headers) != 1 ||
			*e.RetryAfterSeconds != 90 || e.Provider != "openai" || e.Tool != "opencode" ||
			e.ErrorType != "rate_limited" {
			t.Errorf("%+v", e)
		}
		if !strings.Contains(e.Message, "Not you, [REDACTED]") {
			t.Errorf("message %q", e.Message)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := agentPlan(t, "gemini", nil)
		bus, r := newFakeBus(), &fakeRunner{script: []exit{{code: 173, took: time.Minute}}}
		w := testWorker(t, p, bus, r)
		w.classify = classifyFailure
		w.run(t.Context())
		if e := bus.onlyError(t); e.HTTPStatus != 429 || e.ErrorType != "rate_limited" || e.Provider != "google" {
			t.Errorf("%+v", e)
		}
	})
}

// TestSummaryIsTheAgentsLastWords checks that the summary comes from the last CODE run with a message, and is masked,
// bounded and free of control sequences. Other stages have no summary.
func TestSummaryIsTheAgentsLastWords(t *testing.T) {
	says := func(text string) string {
		line, _ := json.Marshal(map[string]any{
			"type": "result", "subtype": "success", "is_error": false,
			"result": text,
		})
		return string(line)
	}
	long := strings.Repeat("word ", 2000)
	for name, row := range map[string]struct {
		first, second string // output of the two runs of CODE
		want          string
	}{
		"its last":      {says("I tried."), says("Mended the parser."), "Mended the parser."},
		"empty at last": {says("Mended the parser."), says(" \n"), "Mended the parser."},
		"masked":        {says("x"), says("\x1b[1mthe key\x1b[0m is bus-password\n"), "the key is [REDACTED]"},
		"none":          {says(""), says(""), ""},
		"long":          {says("x"), says(long), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := agentPlan(t, "claude-code", nil)
				p.Secrets = []string{"bus-password"}
				bus, r := newFakeBus(), &fakeRunner{script: []exit{minute(0), minute(1), minute(0), minute(0)}}
				lines := []string{row.first, row.second}
				r.onRun = func(c command) {
					if c.stdout != nil {
						writeFile(t, p, "parser.go", lines[0])
						prints(lines[0])(c)
						lines = lines[1:]
					}
				}
				testWorker(t, p, bus, r).run(t.Context())
				got := bus.only(t).(*wire.WorkerResult).Summary
				if name == "long" {
					if len(got) < 4000 || len(got) > 4<<10 || !strings.HasPrefix(got, "word word") {
						t.Errorf("%d bytes: %.50q", len(got), got)
					}
				} else if got != row.want {
					t.Errorf("%q, want %q", got, row.want)
				}
			})
		})
	}
}

// TestValidateFirstTellsTheAgent checks that the prompt of the first CODE run gives the reason of the refusal
// and mentions the merge of the base branch.
func TestValidateFirstTellsTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := agentPlan(t, "claude-code", nil)
		p.ValidateFirst, p.AttemptFile.Action = true, "revalidate"
		bus, r := newFakeBus(), &fakeRunner{script: []exit{minute(2), minute(0), minute(0)}, onRun: prints(claudeWell)}
		if code := testWorker(t, p, bus, r).run(t.Context()); code != ExitResult || len(r.runs) != 3 {
			t.Fatalf("exit %d after %d runs", code, len(r.runs))
		}
		for _, want := range []string{
			"The work in the working directory was not accepted. Fix it",
			"> some trouble", "before the base branch was merged into it",
		} {
			if prompt := r.runs[1].argv[2]; !strings.Contains(prompt, want) || strings.Contains(prompt, "round 0") {
				t.Errorf("no %q in\n%s", want, prompt)
			}
		}
	})
}

// TestRejectionOfACleanContainerIsTold checks that the rejection is in the prompt of the first CODE run, and in files.
func TestRejectionOfACleanContainerIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := agentPlan(t, "claude-code", nil)
		p.Stages = p.Stages[:1]
		p.AttemptFile.Action = "fix_attempt"
		p.Rejected = &wire.Rejection{
			Stage: "VALIDATE", ExitCode: 2, Message: "VALIDATE: make returned exit code 2",
			StdoutTail: "--- FAIL: TestParse", StderrTail: "make: *** [test] Error 1",
		}
		bus, r := newFakeBus(), &fakeRunner{script: []exit{minute(0)}, onRun: prints(claudeWell)}
		if code := testWorker(t, p, bus, r).run(t.Context()); code != ExitResult || len(r.runs) != 1 {
			t.Fatalf("exit %d after %d runs", code, len(r.runs))
		}
		for _, want := range []string{
			"was not accepted. Fix it", "> VALIDATE: make returned exit code 2",
			"> --- FAIL: TestParse", "> make: *** [test] Error 1",
		} {
			if prompt := r.runs[0].argv[2]; !strings.Contains(prompt, want) {
				t.Errorf("no %q in\n%s", want, prompt)
			}
		}
		var last lastFailure
		data, err := os.ReadFile(filepath.Join(p.Workdir, failureJSON))
		if err = errors.Join(err, json.Unmarshal(data, &last)); err != nil || last.Stage != "VALIDATE" ||
			last.ExitCode != 2 || last.FixRound != 0 || last.StdoutTail != "--- FAIL: TestParse" {
			t.Errorf("%+v, %v", last, err)
		}
		text, err := os.ReadFile(filepath.Join(p.Workdir, failureText))
		if err != nil || !strings.Contains(string(text), "make: *** [test] Error 1") {
			t.Errorf("%s, %v", text, err)
		}
	})
}

// TestAgentThatIsMissing checks that a missing agent is searched for twice, and does not cost a paid call.
func TestAgentThatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := agentPlan(t, "codex", nil)
		bus, r := newFakeBus(), &fakeRunner{script: []exit{{err: errNoProgram}, {err: errNoProgram}}}
		testWorker(t, p, bus, r).run(t.Context())
		if e := bus.onlyError(t); e.ErrorType != "missing_prereq" || e.Usage != nil || e.Tool != "codex" ||
			len(r.runs) != 2 {
			t.Errorf("%d runs, %+v", len(r.runs), e)
		}
	})
}

// TestPlanOfAnUnknownFormat checks that a plan with an unknown format is refused before anything starts.
func TestPlanOfAnUnknownFormat(t *testing.T) {
	p := testPlan(t)
	p.Stages[0].Agent = &wire.PlanAgent{Name: "x", Format: "xml"}
	if err := complete(p); err == nil || !strings.Contains(err.Error(), "stages[0].agent.format") {
		t.Error(err)
	}
}
