package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"retake/internal/config"
	"retake/internal/testbed/program"
)

// writeAgents writes a configuration with agents that work, do nothing, are missing, and fail.
func writeAgents(t *testing.T, dir string) {
	t.Helper()
	files := map[string]string{
		"agents.toml": "[[agent]]\nname = \"mine\"\nprogram = \"" + filepath.Join(dir, "agentloop") +
			"\"\nargs = [\"-p\", \"{prompt}\"]\nformat = \"retake\"\nprovider = \"anthropic\"\n" +
			"[[agent]]\nname = \"deaf\"\nprogram = \"true\"\nargs = [\"{prompt}\"]\n" +
			"[[agent]]\nname = \"absent\"\nprogram = \"no-such-agent\"\nargs = [\"{prompt}\"]\n" +
			"[[agent]]\nname = \"red\"\nprogram = \"sh\"\nargs = [\"-c\", 'printf \"\\033[31mError: 401 Invalid API " +
			"key\\033[0m\" >&2; exit 1', \"{prompt}\"]\n",
		"my.toml": "[recovery]\nagents_file = \"" + filepath.Join(dir, "agents.toml") +
			"\"\n[containers]\nruntime = \"process\"\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A new user adds a profile, and one command shows how Retake reads the agent's output.
func TestAgentsTryTellsWhatWasUnderstood(t *testing.T) {
	dir := t.TempDir()
	for _, what := range []string{"retake/cmd/worker", "retake/internal/agenttest/cmd/agentloop"} {
		if err := program.Build(t.Context(), "", what, dir+"/"); err != nil {
			t.Fatal(err)
		}
	}
	writeAgents(t, dir)
	try := func(args ...string) (string, error) {
		var out strings.Builder
		c := command()
		c.SetOut(&out)
		c.SetArgs(append([]string{
			"agents", "try", "-c", filepath.Join(dir, "my.toml"), "--worker-binary",
			filepath.Join(dir, "worker"),
		}, args...))
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}
	out, err := try("mine")
	for _, want := range []string{
		"ok: everything works\n  read as   success (correct)\n  edits     standin.txt\n  steps     read_file " +
			"README.md; write_file standin.txt; run_command",
		"usage     3", "auth_error (correct)", "rate_limited, wait 1h0m0s (correct)",
		"context_overflow (correct)",
	} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v, no %q in\n%s", err, want, out)
		}
	}
	out, err = try("deaf", "invalid-key")
	if answer := "WRONG: want auth_error"; !strings.Contains(out, answer) ||
		!strings.Contains(out, "no request reached the fake provider") || err == nil {
		t.Errorf("%v, no %q in\n%s", err, answer, out)
	}
	// In these cases requests cannot reach the stand-in, so the command must not blame the profile.
	for _, args := range [][]string{{"deaf", "refused"}, {"absent", "ok"}} {
		if out, _ := try(args...); !strings.Contains(out, args[1]+": ") ||
			strings.Contains(out, "no request reached the fake provider") {
			t.Errorf("%v blames the profile:\n%s", args, out)
		}
	}
	out, err = try("red", "invalid-key", "-v")
	if want := "  stdout\n    nothing\n  stderr\n    Error: 401 Invalid API key\n"; err != nil ||
		!strings.Contains(out, want) || strings.Contains(out, "\x1b") {
		t.Errorf("%v, no %q in\n%q", err, want, out)
	}
	for _, wrong := range [][]string{{}, {"nobody"}, {"mine", "no-such-case"}} {
		if out, err := try(wrong...); err == nil {
			t.Errorf("%v was tried:\n%s", wrong, out)
		}
	}
}

// A missing capability of the engine, or a missing engine, is an error, so that the agent never runs unconfined
// by accident.
func TestAgentsTryStaysConfined(t *testing.T) {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/networks") {
			t.Errorf("%s %s, although the image is missing", r.Method, r.URL.Path)
		}
		if !strings.HasSuffix(r.URL.Path, "/_ping") {
			http.Error(w, `{"message":"not here"}`, http.StatusNotFound)
		}
	}))
	defer engine.Close()
	t.Setenv("DOCKER_HOST", "tcp://"+strings.TrimPrefix(engine.URL, "http://"))
	try := tryout{cfg: config.Config{Containers: config.Containers{
		Runtime: config.FormerRuntime, Image: "none",
		Network: "retake",
	}}}
	if place, _, _, err := try.place(t.Context(), t.TempDir()); err == nil {
		t.Errorf("it would run %s", place)
	}
	engine.Close()
	if place, _, _, err := try.place(t.Context(), t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "--set containers.runtime=process") {
		t.Errorf("without an engine it would run %q, %v", place, err)
	}
	try.cfg.Containers.Runtime = "process"
	if place, _, _, err := try.place(t.Context(), t.TempDir()); err != nil ||
		place != "as a plain process, without isolation" {
		t.Errorf("as asked it would run %q, %v", place, err)
	}
}
