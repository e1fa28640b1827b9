package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFindInOrder checks that a named file takes precedence over a default file, and that the error lists the tried
// paths.
func TestFindInOrder(t *testing.T) {
	t.Chdir(t.TempDir())
	env := ""
	find := func(flag string, isFlag bool) Found {
		t.Helper()
		f, err := Find(flag, isFlag, func(string) string { return env })
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	_, err := Find("", false, func(string) string { return "" })
	for _, place := range []string{"RETAKE_CONFIG", "retake.toml", "config/dev.toml", "director config init"} {
		if !errors.Is(err, ErrNoFile) || !strings.Contains(err.Error(), place) {
			t.Errorf("want %s in: %v", place, err)
		}
	}
	for _, file := range []string{Template, LocalFile} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if f := find("", false); f.Path != file || f.Named() != (file == LocalFile) {
			t.Errorf("%+v, want %s", f, file)
		}
	}
	env = "of-env.toml"
	if f := find("", false); f.Path != env || f.How != FileVariable || !f.Named() {
		t.Errorf("%+v", f)
	}
	for _, flag := range []string{"named.toml", ""} {
		if f := find(flag, true); f.Path != flag || f.How != "-c" {
			t.Errorf("%+v", f)
		}
	}
}

func TestSettingsSayWhereTheyComeFrom(t *testing.T) {
	dir := t.TempDir()
	policyFile := filepath.Join(dir, "p.toml")
	file := filepath.Join(dir, "c.toml")
	for name, text := range map[string]string{
		policyFile: "[guards]\npaid_call_budget = 77\n",
		file: "[director]\nmax_workers = 5\n\n[recovery]\npolicy_file = \"" + policyFile +
			"\"\n\n[[stage]]\nname = \"CODE\"\nrun = [\"make\"]\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{
		"RETAKE_CFG_DIRECTOR_FLEET=env", "RETAKE_CFG_AGENT_BUS_URL=tls://me:hunter22hunter22@nats:4222",
		"RETAKE_CFG_AGENT_BUS_CREDENTIALS=k",
	}
	settings, problems := Settings(file, env, map[string]string{"director.max_retries": "9"})
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	got := map[string]Setting{}
	for _, s := range settings {
		got[s.Key] = s
	}
	for _, want := range []Setting{
		{"director.max_workers", "5", FromFile, file + ":2"},
		{"director.fleet", `"env"`, FromEnvironment, "RETAKE_CFG_DIRECTOR_FLEET"},
		{"director.max_retries", "9", FromFlag, ""},
		{"director.data_dir", `"` + filepath.Join(dir, ".retake") + `"`, FromDefault, ""},
		{"recovery.paid_call_budget", "77", FromPreset, policyFile},
		{"stage[0].run", `["make"]`, FromFile, file + ":9"},
		{"stage[0].timeout_seconds", "1800", FromDefault, ""},
	} {
		if got[want.Key] != want {
			t.Errorf("got  %+v\nwant %+v", got[want.Key], want)
		}
	}
	if url := got["agent_bus.url"]; strings.Contains(url.Value, "hunter22") ||
		!strings.Contains(url.Value, "nats:4222") {
		t.Errorf("a password is shown: %+v", url)
	}
	if want := len(allRows) - len(routeKeys(&Route{})); len(settings) != want { // the file has one stage and no route
		t.Errorf("%d settings, want one for each of the %d keys", len(settings), want)
	}
}
