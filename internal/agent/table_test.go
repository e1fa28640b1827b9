package agent

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/bus/wire"
)

// TestBuiltin checks that each profile is complete. A profile without events must support the stand-in, which is the
// only way to see its output.
func TestBuiltin(t *testing.T) {
	want := []string{
		"claude-code", "cline", "codex", "continue", "copilot", "crush", "gemini", "opencode",
		"opencode-go", "pi", "qwen",
	}
	if got := Builtin().Names(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, p := range Builtin().rows {
		silent := p.Format == "text"
		if p.Measured == "" || p.Why == "" || len(p.Keys) == 0 || !silent &&
			(len(p.ModelArgs) == 0 || len(p.Env) == 0) ||
			silent && len(p.Try.Env)+len(p.Try.Files) == 0 {
			t.Errorf("%s is incomplete: %+v", p.Name, p)
		}
	}
}

func TestUsersRows(t *testing.T) {
	base := Builtin()
	table, err := Parse(base, []byte(`
[[agent]]
name = "mine"
program = "./mine.sh"
args = ["--fast", "{model}", "{prompt}"]
model_args = ["-m={model}"]
format = "retake"
[[agent]]
name = "codex"
env = ["A=b"]
`))
	if err != nil {
		t.Fatal(err)
	}
	mine, err := table.Lookup("mine")
	if err != nil || mine.PromptBytes != DefaultPrompt || !slices.Equal(mine.Streams, []string{"stdout"}) {
		t.Errorf("%+v, %v", mine, err)
	}
	codex, _ := table.Lookup("codex")
	old, _ := base.Lookup("codex")
	if !slices.Equal(codex.Env, []string{"A=b"}) || codex.Program != "codex" || !slices.Equal(codex.Args, old.Args) ||
		len(codex.Exits) != len(old.Exits) {
		t.Errorf("%+v", codex)
	}
	if slices.Equal(old.Env, codex.Env) || !reflect.DeepEqual(base, Builtin()) {
		t.Error("Parse changed its base")
	}
	if _, err := table.Lookup("none"); err == nil || !strings.Contains(err.Error(), "claude-code, cline, codex") {
		t.Errorf("%v", err)
	}
}

// TestFaults checks that every kind of mistake is reported with its key.
func TestFaults(t *testing.T) {
	const head = "[[agent]]\nname = \"x\"\nprogram = \"x\"\nargs = [\"{prompt}\"]\n"
	for doc, want := range map[string]string{
		"[[agent]]\nname = \"X y\"\nprogram = \"x\"\nargs = [\"{prompt}\"]": "agent[0].name: ",
		"[[agent]]\nname = \"x\"\nargs = [\"{prompt}\"]":                    "agent[0].program: missing",
		"[[agent]]\nname = \"x\"\nprogram = \"x\"":                          "agent[0].args: {prompt} is missing",
		"[[agent]]\nname = \"x\"\nprogram = \"x\"\nargs = [\"--p={prompt}\"]": "{prompt} in \"--p={prompt}\": want " +
			"it as a separate argument",
		"[[agent]]\nname = \"codex\"\nargs = [\"{prompt}\", \"{modul}\"]": "{modul}: unknown placeholder",
		"[[agent]]\nname = \"codex\"\nargs = 5":                           "3:1: agent[0].args: got 5, want a list",
		"[[agent]]\nname = 5":                                             "2:1: agent[0].name: got 5, want a string",
		"agent = 1":                                                       "1:1: agent: got 1, want [[agent]]",
		"[[agent]\n":                                                      "not TOML: ",
		head + "model_args = [\"-m\"]":                                    "agent[0].model_args: {model} is missing",
		head + "format = \"xml\"": "agent[0].format: unknown format \"xml\": want one " +
			"of claude, cline",
		head + "streams = []":           "agent[0].streams: empty",
		head + "streams = [\"stdin\"]":  "want stdout or stderr",
		head + "provider = \"a b\"":     "agent[0].provider: ",
		head + "keys = [\"A-B\"]":       "agent[0].keys: ",
		head + "env = [\"A\"]":          "want NAME=value",
		head + "env = [\"RETAKE_X=1\"]": "RETAKE_ variables",
		head + "env = [\"A_KEY=sk-ant-0123456789abcdef\"]": "5:1: agent[0].env: \"A_KEY\" looks " +
			"like a secret",
		head + "env = [\"A={prompt}\"]": "only in args",
		head + "files = [{ name = \"../x\", content = \"\" }]": "agent[0].files: \"../x\": want a " +
			"file name, or a path",
		head + "files = [{ name = \"a//b\", content = \"\" }]": "\"a//b\": want a file name" +
			", or a path",
		head + "files = [{ name = \"/etc/x\", content = \"\" }]": "\"/etc/x\": want a file name" +
			", or a path",
		head + "files = [{ name = \"a\", content = \"\" }, { name = \"a/b\", " +
			"content = \"\" }]": "\"a\" and \"a/b\" conflict",
		head + "files = [{ name = \"a\", content = \"\" }, { name = \"a\", " +
			"content = \"\" }]": "\"a\" and \"a\" conflict",
		head + "state_paths = [\"/x\"]": "agent[0].state_paths: \"/x\": the glob is not relative to the " +
			"work tree, want a glob",
		head + "state_paths = [\"**\"]":  "agent[0].state_paths: \"**\": the glob matches all paths or none",
		head + "state_paths = [\"~/x\"]": "\"~/x\": the glob is not relative to the work tree",
		head + "state_paths = \".x\"":    "agent[0].state_paths: got a string, want a list",
		head + "log_paths = [\"/var/x.log\"]": "agent[0].log_paths: \"/var/x.log\": want a glob below ~/ or " +
			"relative to the work tree",
		head + "log_paths = [\"~/../x\"]":             "agent[0].log_paths: \"~/../x\": want a glob below ~/",
		head + "log_paths = [\"!x.log\"]":             "agent[0].log_paths: \"!x.log\": want a glob below ~/",
		head + "exits = [{ code = 256 }]":             "want 0 to 255",
		head + "exits = [{ code = 1, status = 200 }]": "HTTP status of an error",
		head + "prompt_bytes = 200000":                "agent[0].prompt_bytes: 200000: want 2048 to",
		head + "wat = 1":                              "agent[0].wat: unknown key",
		head + head:                                   `agent[1].name: duplicate agent "x"`,
		"[other]\na = 1":                              "other: unknown key",
		"[[agent]]\nname = \"x\"\nprogram = \"x\"\nargs = [\"{prompt}\", \"{model}\"]": "agent[0].model_args: missing",
	} {
		table, err := Parse(Builtin(), []byte(doc))
		if err == nil || !strings.Contains(err.Error(), want) || table != nil {
			t.Errorf("%s\ngot  %v\nwant %s", doc, err, want)
		}
	}
}

func TestExpand(t *testing.T) {
	table := Builtin()
	plan, err := table.Expand(Stage{
		Name: "CODE", Agent: "claude-code", Model: "m1", AlternativeModel: "m2",
		Timeout: time.Minute,
	})
	if err != nil || plan.Run[0] != "claude" || plan.Agent.Name != "claude-code" || plan.TimeoutSeconds != 60 ||
		plan.Model != "m1" || plan.AlternativeModel != "m2" {
		t.Errorf("%+v, %v", plan, err)
	}
	argv, env := Command(plan, "m1", "do {model} it", "/w/.retake/agent")
	if !slices.Contains(argv, "do {model} it") || !slices.Equal(argv[len(argv)-2:], []string{"--model", "m1"}) ||
		!slices.Contains(env, "CLAUDE_CODE_MAX_RETRIES=2") {
		t.Errorf("%q, %q", argv, env)
	}
	if argv, _ := Command(plan, "", "p", "/f"); slices.Contains(argv, "--model") || slices.Contains(argv, "{model}") {
		t.Errorf("%q", argv)
	}
	plan, err = table.Expand(Stage{Name: "CODE", Agent: "cline", Timeout: 100 * time.Second})
	if argv, _ := Command(plan, "", "p", "/f"); err != nil ||
		!slices.Equal(argv, []string{"cline", "--json", "-t", "95", "p"}) {
		t.Errorf("%q, %v", argv, err)
	}
	plan, _ = table.Expand(Stage{Name: "CODE", Agent: "gemini"})
	if _, env := Command(plan, "", "p", "/w/.retake/agent"); !slices.Contains(env,
		"GEMINI_CLI_SYSTEM_DEFAULTS_PATH=/w/.retake/agent/gemini-defaults.json") || len(plan.Agent.Files) != 1 {
		t.Errorf("%q", env)
	}
	if plan, err := table.Expand(Stage{Name: "VALIDATE", Run: []string{"make", "test"}, Model: "m"}); err != nil ||
		plan.Agent != nil || plan.Run[0] != "make" || plan.Model != "m" {
		t.Errorf("%+v, %v", plan, err)
	}
	for _, bad := range []Stage{
		{Name: "CODE"},
		{Name: "CODE", Agent: "none"},
		{Name: "CODE", Agent: "pi", Run: []string{"x"}},
	} {
		if _, err := table.Expand(bad); !errors.Is(err, errStage) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if status, means := ExitStatus(plan.Agent, 173); status != 429 || means == "" {
		t.Errorf("%d %q", status, means)
	}
}

func TestModelOfAnAttempt(t *testing.T) {
	other := "other"
	for _, row := range []struct {
		stage wire.StagePlan
		file  *wire.AttemptFile
		want  string
	}{
		{wire.StagePlan{Model: "a"}, nil, "a"},
		{wire.StagePlan{Model: "a", AlternativeModel: "b"}, &wire.AttemptFile{Action: "retry"}, "a"},
		{wire.StagePlan{Model: "a", AlternativeModel: "b"}, &wire.AttemptFile{Action: "retry_alternative"}, "b"},
		{wire.StagePlan{Model: "a", AlternativeModel: "b"}, &wire.AttemptFile{Action: "retry", Model: &other}, "b"},
		{wire.StagePlan{Model: "a"}, &wire.AttemptFile{Model: &other}, "other"},
		{wire.StagePlan{Model: "a"}, &wire.AttemptFile{Action: "retry_alternative"}, "a"},
		{wire.StagePlan{}, &wire.AttemptFile{}, ""},
	} {
		if got := Model(row.stage, row.file); got != row.want {
			t.Errorf("%+v, %+v: %q, want %q", row.stage, row.file, got, row.want)
		}
	}
}

func TestResource(t *testing.T) {
	own := &wire.PlanAgent{Provider: "anthropic"}
	for _, row := range []struct {
		stage wire.StagePlan
		model string
		want  string
	}{
		{wire.StagePlan{Agent: own}, "openai/x", "model.anthropic"},
		{wire.StagePlan{Agent: own, Resource: "model.z"}, "", "model.z"},
		{wire.StagePlan{Agent: &wire.PlanAgent{}}, "OpenAI/gpt", "model.openai"},
		{wire.StagePlan{Agent: &wire.PlanAgent{}}, "a b/gpt", "model.default"},
		{wire.StagePlan{Agent: &wire.PlanAgent{}}, "gpt", "model.default"},
		{wire.StagePlan{}, "openai/x", "model.default"},
	} {
		if got := Resource(row.stage, row.model); got != row.want {
			t.Errorf("%+v, %q: %q, want %q", row.stage, row.model, got, row.want)
		}
	}
}

// TestEndOfAStream checks ends_with and exit_seconds. If a file sets another format, the row's ends_with no longer
// applies.
func TestEndOfAStream(t *testing.T) {
	for given, want := range map[string]string{
		`args = ["{prompt}"]`:                        "result",
		`format = "text"`:                            "",
		`exit_seconds = 60`:                          "result",
		`format = "pi"`:                              "",
		`ends_with = ""`:                             "",
		`ends_with = "nothing"`:                      "error",
		`exit_seconds = -1`:                          "error",
		"format = \"retake\"\nends_with = \"final\"": "final",
	} {
		table, err := Parse(Builtin(), []byte("[[agent]]\nname = \"claude-code\"\n"+given+"\n"))
		if (err != nil) != (want == "error") {
			t.Errorf("%s: %v", given, err)
		}
		if err != nil {
			continue
		}
		if row, _ := table.Lookup("claude-code"); row.EndsWith != want {
			t.Errorf("%s: %q, want %q", given, row.EndsWith, want)
		}
	}
	for _, row := range Builtin().rows {
		if (row.EndsWith == "") != (row.Format == "text") || row.ExitSeconds <= 0 {
			t.Errorf("%s: format %s ends with %q, in %v s", row.Name, row.Format, row.EndsWith, row.ExitSeconds)
		}
	}
}
