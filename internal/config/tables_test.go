package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// operatorAgents and operatorRules are files of an operator with faults.
const (
	operatorAgents = `# mine
[[agent]]
name = "mine"
program = "mine"
args = ["--go"]
[[agent]]
name = "codex"
format = "jsonl"
wat = 1
[[agent]]
name = "other"
args = 5
`
	operatorRules = `[[rule]]
id = "mine.limit"
reason = "rate_limitd"
band = "failure"
any = ["slow down"]
why = "mine"
examples = ["slow down"]
`
)

// TestOperatorTables checks that each fault in a file of [recovery] is a problem with the file, the line, and the key
// that names the file.
func TestOperatorTables(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	agents := put("agents.toml", operatorAgents)
	rules := put("rules.toml", operatorRules)
	policy := put("policy.toml", "[[row]]\non = \"rate_limited\"\nladdr = []\n")
	broken := put("broken.toml", "\n\n[[agent]\n")
	secret := put("secret.toml", "[[agent]]\nname = \"pi\"\nenv = [\"A_KEY=sk-ant-0123456789abcdef\"]\n")
	good := put("good.toml", "[[agent]]\nname = \"mine\"\nprogram = \"mine\"\nargs = [\"{prompt}\"]\n")

	for _, row := range []struct {
		doc  string
		want []string
	}{
		{"recovery.agents_file = \"" + agents + "\"", []string{
			agents + ":5:1: recovery.agents_file: agent[0].args: {prompt} is missing",
			agents + ":8:1: recovery.agents_file: agent[1].format: unknown format \"jsonl\": want one of",
			agents + ":9:1: recovery.agents_file: agent[1].wat: unknown key",
			agents + ":12:1: recovery.agents_file: agent[2].args: got 5, want a list",
		}},
		{"recovery.agents_file = \"" + broken + "\"", []string{broken + ":3:"}},
		{
			"recovery.agents_file = \"" + secret + "\"",
			[]string{secret + ":3:1: recovery.agents_file: agent[0].env: \"A_KEY\" looks like a secret"},
		},
		{"recovery.rules_file = \"" + rules + "\"", []string{rules + ":3:1: recovery.rules_file: "}},
		{"recovery.policy_file = \"" + policy + "\"", []string{policy + ":3:1: recovery.policy_file: "}},
		// problems are sorted by the files' names
		{"recovery.policy_file = \"" + policy + "\"\nrecovery.rules_file = \"" + rules + "\"", []string{
			policy + ":3:1: ", rules + ":3:1: ",
		}},
		{"recovery.rules_file = \"/no/such\"\nrecovery.policy_file = \"/nor/this\"", []string{
			"c.toml:1:10: recovery.rules_file: \"/no/such\": no such file",
			"c.toml:2:10: recovery.policy_file: \"/nor/this\": no such file",
		}},
		{
			"recovery.agents_file = \"" + broken + "\"\n[[stage]]\nname = \"CODE\"\nagent = \"crush\"",
			[]string{broken + ":3:"},
		},
		{"recovery.agents_file = \"" + good + "\"\n[[stage]]\nname = \"CODE\"\nagent = \"mine\"", nil},
	} {
		checkTables(t, row.doc, row.want)
	}
}

// checkTables parses a configuration that names files of [recovery], and compares the problems line by line.
func checkTables(t *testing.T, doc string, want []string) {
	t.Helper()
	c, got := text(t, doc)
	lines := strings.Split(got, "\n")
	if want == nil && got != "" || want != nil && len(lines) != len(want) {
		t.Errorf("%s\ngot\n%s", doc, got)
		return
	}
	for i, w := range want {
		if !strings.HasPrefix(lines[i], w) {
			t.Errorf("%s\ngot  %s\nwant %s", doc, lines[i], w)
		}
	}
	if strings.Contains(got, "0123456789abcdef") {
		t.Errorf("the secret is shown: %s", got)
	}
	if c.Agents == nil {
		t.Error("no agents")
	}
}

func TestTablesAreBuilt(t *testing.T) {
	c, problems := text(t, "recovery.preset = \"prp\"\n[[stage]]\nname = \"CODE\"\nagent = \"claude-code\"\n"+
		"model = \"m\"")
	if problems != "" {
		t.Fatal(problems)
	}
	tables, p := c.Tables()
	if len(p) > 0 || tables.Classifier == nil || tables.Policy == nil || tables.Policy.Name() != "prp" {
		t.Errorf("%+v, %v", tables, p)
	}
	plan, err := c.Agents.Expand(c.Stages[0])
	if err != nil || plan.Run[0] != "claude" || plan.Model != "m" || plan.Agent.Format != "claude" {
		t.Errorf("%+v, %v", plan, err)
	}
}

// TestCallersOfAPolicyFile checks that stages accept the callers of the user's rows and of the preset.
func TestCallersOfAPolicyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.toml")
	row := "[[row]]\non = \"*\"\ncaller = \"mine\"\nthen = \"stop\"\n"
	if err := os.WriteFile(path, []byte(row), 0o600); err != nil {
		t.Fatal(err)
	}
	doc := "recovery.preset = \"prp\"\nrecovery.policy_file = \"" + path + "\"\n" + codeStage
	for _, caller := range []string{"mine", "cleanup"} {
		if c, got := text(t, doc+"caller = \""+caller+"\"\n"); got != "" || c.Callers()["CODE"] != caller {
			t.Errorf("%s: %v, %s", caller, c.Callers(), got)
		}
	}
	if _, got := text(t, doc+"caller = \"cleanupp\"\n"); !strings.Contains(got, "has no row for caller") {
		t.Errorf("got %q", got)
	}
}
