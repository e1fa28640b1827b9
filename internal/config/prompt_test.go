package config

import (
	"strings"
	"testing"
)

func TestCheckPrompt(t *testing.T) {
	c := operator(t)
	const at = ".github/retake-prompt.md:"
	for text, want := range map[string]string{
		"Fix {{.Issue.Title}}":             "",
		"Fix\n {{.Isue}}{{.Issue.Titel}}":  at + "2:4: unknown field .Isue, want one of .Issue, ",
		"{{.Issue.Titel}}":                 at + "1:9: unknown field .Titel, want one of .Key, ",
		"{{range .Failures}}":              at + "1:1: an {{if}}, {{range}} or {{with}} has no {{end}}",
		"{{.Issue.Title | printf \"%s\"}}": at + `1:18: unknown function "printf", want one of `,
		strings.Repeat("A rule.\n", 2000):  "",
		strings.Repeat("A rule.\n", 2000) + strings.Repeat("{{.Default}}", 30): "",
	} {
		got := CheckPrompt(c, PromptFile, []byte(text)).String()
		if want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%.60q: got %q, want %q", text, got, want)
		}
	}
}

// TestPromptBytes checks that a template must fit the smallest agent that gets it.
func TestPromptBytes(t *testing.T) {
	c := operator(t)
	if got := PromptBytes(c); got != 32<<10 {
		t.Errorf("a program: got %d", got)
	}
	c.Stages[0].Agent, c.Stages[0].Run = "claude-code", nil
	p, err := c.Agents.Lookup("claude-code")
	if err != nil || PromptBytes(c) != p.PromptBytes {
		t.Errorf("an agent: got %d, %v", PromptBytes(c), err)
	}
	if got := PromptBytes(Default()); got != 32<<10 {
		t.Errorf("no stage: got %d", got)
	}
}

func TestPromptInAContract(t *testing.T) {
	_, problems := Contract(operator(t), contractFile, []byte("prompt = \"x\""), false)
	const want = ".github/retake.toml:1:1: prompt: a prompt is a separate file: move it to .github/retake-prompt.md"
	if !hasProblem(problems, want) {
		t.Errorf("got\n%s\nwant\n%s", problems, want)
	}
}
