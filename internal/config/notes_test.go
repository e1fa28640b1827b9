package config

import (
	"strings"
	"testing"
)

func TestNotes(t *testing.T) {
	const codex = "[[stage]]\nname = \"CODE\"\nagent = \"codex\"\n"
	for text, want := range map[string]string{
		"":                                   "",
		"[containers]\nruntime = \"auto\"\n": `now means "docker" and no longer falls back to plain processes`,
		codex: "stage[0].agent: codex does not receive any of OPENAI_API_KEY, " +
			"CODEX_API_KEY: ",
		"[containers]\nenv_passthrough = [\"CODEX_API_KEY\"]\n" + codex: "",
		"[containers]\nenv_passthrough = [\"ANTHROPIC_API_KEY\"]\n" + codex: "codex does not receive any " +
			"of",
		"[[stage]]\nname = \"CODE\"\nrun = [\"make\"]\n":                                "",
		"[[stage]]\nname = \"CONTEXT_LOAD\"\nrun = [\"a\"]\n" + codex + "model = \"m\"": "stage[1].agent",
	} {
		c, problems := load("c.toml", []byte(text), nil, nil)
		if problems.Err() != nil {
			t.Fatalf("%s\n%v", text, problems)
		}
		if got := strings.Join(c.Notes(), "\n"); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s\n  %q, want %q", text, got, want)
		}
	}
}
