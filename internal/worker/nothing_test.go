package worker

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"retake/internal/agent"
	"retake/internal/bus/wire"
)

// novel adds the profile of an unknown agent that prints text, played by real programs.
func (w *world) novel(leaves map[string]string, out string, exitCode string) {
	w.t.Helper()
	program := filepath.Join(w.t.TempDir(), "novel")
	if err := os.Symlink(testProgram(w.t), program); err != nil {
		w.t.Fatal(err)
	}
	table, err := agent.Parse(agent.Builtin(), []byte("[[agent]]\nname = \"mine\"\nprogram = '"+program+
		"'\nargs = [\"-p\", \"{prompt}\"]\nlog_paths = [\"~/.novel/logs/**/*.log\", \".novel/*.log\"]\n"))
	if err != nil {
		w.t.Fatal(err)
	}
	stage := agent.Stage{Name: wire.StageCode, Agent: "mine", Timeout: time.Minute}
	plan, err := table.Expand(stage)
	if err != nil {
		w.t.Fatal(err)
	}
	files, err := json.Marshal(leaves)
	if err != nil {
		w.t.Fatal(err)
	}
	plan.Env = map[string]string{
		programEnv: "leaver", "TEST_LEAVES": string(files), "TEST_OUT": out,
		"TEST_EXIT": exitCode, "HOME": w.t.TempDir(),
	}
	w.plan.Stages, w.plan.StatePaths = []wire.StagePlan{plan}, table.StatePaths([]agent.Stage{stage})
	w.plan.Secrets = []string{"hunter2-hunter2"}
}

const (
	control = "\x1bP1$r0m\x1b\\\x1b(B\x1b]0;novel\a\x1b[?25l\x1b[2J\x1b[0m\n"
	log401  = "2026-11-22T02:03:01Z INFO starting\n2026-11-22T02:03:02Z ERROR request failed: 401 Unauthorized: " +
		"invalid x-api-key hunter2-hunter2\n"
)

// TestWholeNothingDone checks that an agent that returns 0 without work has failed, and that its log file has the
// reason.
func TestWholeNothingDone(t *testing.T) {
	for name, row := range map[string]struct {
		leaves map[string]string
		out    string
		want   string // reason, or "" for a success
		log    string // in the report
	}{
		"only its database": {
			map[string]string{".novel/session.db": "x", ".opencode/opencode.db": "x"},
			control,
			"unknown", "",
		},
		"only another's folder":  {map[string]string{".crush/crush.db": "x"}, control, "unknown", ""},
		"only ignored files":     {map[string]string{"build/out.o": "x", "trace.tmp": "x"}, "", "unknown", ""},
		"only control sequences": {nil, control, "unknown", ""},
		"a 401 in its log": {
			map[string]string{"~/.novel/logs/today/run.log": log401},
			control, "auth_error",
			"--- ~/.novel/logs/today/run.log ---",
		},
		"a 401 in the work tree": {
			map[string]string{".novel/run.log": log401},
			"", "auth_error",
			"--- .novel/run.log ---",
		},
		"work, and its own files": {map[string]string{"parser.go": "x", ".novel/session.db": "x"}, control, "", ""},
		"a tracked file":          {map[string]string{".novel/rules.md": "x"}, control, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.novel(row.leaves, row.out, "0")
			writeFile(t, w.plan, ".gitignore", "/build/\n*.tmp\n")
			writeFile(t, w.plan, ".novel/rules.md", "the project's\n")
			w.plan.Tracked = []string{".novel/rules.md"}
			code := w.run(t.Context())
			if row.want == "" {
				if code != ExitResult {
					t.Errorf("exit %d: %+v", code, w.reports())
				}
				return
			}
			e := w.onlyError()
			if e.ErrorType != row.want || e.ExitCode == nil || *e.ExitCode != 0 {
				t.Errorf("%+v", e)
			}
			if row.log != "" && (!strings.Contains(e.LastStderrTail, row.log) ||
				!strings.Contains(e.LastStderrTail+e.Message, "401 Unauthorized")) {
				t.Errorf("message %q, stderr %q", e.Message, e.LastStderrTail)
			}
			if strings.Contains(e.LastStderrTail+e.Message, "hunter2") {
				t.Errorf("a secret is in the report: %q", e.LastStderrTail)
			}
		})
	}
}

const cutStream = "[ERROR] Model stream ended without a finish reason.\n"

// runsWithoutWork are the cases of TestWholeNoWorkAtAll.
var runsWithoutWork = map[string]struct {
	out, err  string
	leaves    map[string]string
	unchanged bool
	script    bool
	want      string // reason, or "" for a success
	cause     string // in the report
}{
	"a key": {
		"Error: 401 Invalid API key\n", "", nil, true, false, "auth_error",
		"401 Invalid API key",
	},
	"a stream, on stderr": {
		"Let me look.\n", cutStream,
		map[string]string{".novel/session.db": "x"},
		true, false,
		"network_transient", "without a finish reason",
	},
	"a limit, from a script": {
		"", "API Error: 429 Too Many Requests\n", nil, true, true, "rate_limited",
		"429 Too Many Requests",
	},
	"a log": {
		"Something went wrong.\n", "",
		map[string]string{"~/.novel/logs/run.log": log401},
		true, false, "auth_error", "401 Unauthorized",
	},
	"an explanation": {
		"No change is needed: the function already handles connection refused.\n", "", nil,
		true, false, "no_progress", "No change is needed",
	},
	"a silent script":        {"", "", nil, true, true, "unknown", "changed nothing"},
	"an error, and work":     {"", cutStream, map[string]string{"parser.go": "x"}, true, false, "", ""},
	"work from before":       {"", cutStream, nil, false, true, "", ""},
	"an answer, work before": {"It is done.\n", cutStream, nil, false, false, "", ""},
}

// TestWholeNoWorkAtAll checks an agent that prints an error and returns 0. Without earlier work, its stage fails with
// that output as the cause. With earlier work, validation decides. A script around an agent counts as an agent.
func TestWholeNoWorkAtAll(t *testing.T) {
	for name, row := range runsWithoutWork {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.novel(row.leaves, row.out, "0")
			w.plan.Stages[0].Env["TEST_ERR"] = row.err
			if row.script {
				w.plan.Stages[0].Run, w.plan.Stages[0].Agent = w.plan.Stages[0].Run[:1], nil
			}
			w.plan.Stages = append(w.plan.Stages,
				wire.StagePlan{
					Name: wire.StageValidate, Run: []string{testProgram(t)},
					Env: map[string]string{programEnv: "speak", "TEST_OUT": "validated"}, TimeoutSeconds: 60,
				})
			w.plan.Unchanged = row.unchanged
			code := w.run(t.Context())
			if validated := strings.Contains(w.out.String(), "validated"); validated != (row.want == "") {
				t.Errorf("validated: %v", validated)
			}
			if row.want == "" {
				if code != ExitResult {
					t.Errorf("exit %d: %+v", code, w.reports())
				}
				return
			}
			e := w.onlyError()
			if e.ErrorType != row.want || e.Stage != wire.StageCode || e.ExitCode == nil || *e.ExitCode != 0 ||
				!strings.Contains(e.Message, agent.ChangedNothing) {
				t.Errorf("%+v", e)
			}
			if !strings.Contains(e.Message+e.LastStdoutTail+e.LastStderrTail, row.cause) {
				t.Errorf("message %q, stdout %q, stderr %q", e.Message, e.LastStdoutTail, e.LastStderrTail)
			}
		})
	}
}

// TestWholeNoWorkButEarlier checks that the work of an earlier stage can be delivered.
func TestWholeNoWorkButEarlier(t *testing.T) {
	w := newWorld(t)
	w.novel(nil, "It is done already.\n", "0")
	generate := wire.StagePlan{
		Name: wire.StageContextLoad, Run: []string{testProgram(t)}, TimeoutSeconds: 60,
		Env: map[string]string{programEnv: "leaver", "TEST_LEAVES": `{"generated.go":"x"}`},
	}
	w.plan.Stages, w.plan.Unchanged = append([]wire.StagePlan{generate}, w.plan.Stages...), true
	if code := w.run(t.Context()); code != ExitResult {
		t.Errorf("exit %d: %+v", code, w.reports())
	}
}

// TestWholeLogOfThisRun checks that only output of this run is evidence, without earlier text or the target of a link.
func TestWholeLogOfThisRun(t *testing.T) {
	w := newWorld(t)
	w.novel(map[string]string{"~/.novel/logs/run.log": "ERROR the disk is full: no space left on device\n"}, "", "1")
	home := w.plan.Stages[0].Env["HOME"]
	logs := filepath.Join(home, ".novel/logs")
	outside := filepath.Join(t.TempDir(), "outside.log")
	for _, err := range []error{
		os.MkdirAll(logs, 0o755), os.WriteFile(filepath.Join(logs, "run.log"), []byte(log401), 0o644),
		os.WriteFile(filepath.Join(logs, "old.log"), []byte(log401), 0o644),
		os.WriteFile(outside, []byte("outside"), 0o644), os.Symlink(outside, filepath.Join(logs, "zz.log")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.run(t.Context())
	e := w.onlyError()
	if e.ErrorType != "disk_full" || !strings.Contains(e.LastStderrTail, "no space left") ||
		strings.Contains(e.LastStderrTail, "401") || strings.Contains(e.LastStderrTail, "outside") {
		t.Errorf("%s: %q", e.ErrorType, e.LastStderrTail)
	}
}

// TestLogIsCut checks that the end of a log comes before stderr. It begins at the start of a line and has at most
// maxLogBytes.
func TestLogIsCut(t *testing.T) {
	w := newWorld(t)
	w.novel(map[string]string{"~/.novel/logs/run.log": strings.Repeat("one line of it\n", 5000) + "the last\n"}, "",
		"1")
	w.plan.Stages[0].Env["TEST_ERR"] = "on stderr\n"
	w.run(t.Context())
	e := w.onlyError()
	text, ok := strings.CutPrefix(e.LastStderrTail, "--- ~/.novel/logs/run.log ---\none line of it\n")
	if !ok || !strings.HasSuffix(text, "one line of it\nthe last\non stderr\n") || len(text) > maxLogBytes ||
		len(text) < maxLogBytes-100 {
		t.Errorf("%d bytes: %.80q … %q", len(text), e.LastStderrTail, text[max(0, len(text)-80):])
	}
}

// TestWholeNoOtherRepository checks a checkout inside another repository, which the agent's git must not find. That
// is the default location of data_dir for plain processes.
func TestWholeNoOtherRepository(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git: " + err.Error())
	}
	w := newWorld(t)
	outer := t.TempDir()
	w.plan.Workdir = filepath.Join(outer, ".retake", "checkout")
	if err := os.MkdirAll(w.plan.Workdir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(git, "init", "-q", outer).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.env = []string{"PATH=" + os.Getenv("PATH")}
	w.plan.Stages = []wire.StagePlan{{
		Name: wire.StageCode, Run: []string{git, "rev-parse", "--show-toplevel"},
		TimeoutSeconds: 60,
	}}
	if code := w.run(t.Context()); code != ExitError {
		t.Fatalf("exit %d: an agent's git finds %s", code, w.out)
	}
	if e := w.onlyError(); !strings.Contains(e.LastStderrTail, "not a git repository") {
		t.Errorf("%q", e.LastStderrTail)
	}
}
