package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"retake/internal/github/githubtest"
)

// TestProjectPrompt checks the prompts for a sample and for an issue, with and without a template on the base branch.
func TestProjectPrompt(t *testing.T) {
	dir := t.TempDir()
	hub := githubtest.New(githubtest.Options{DataDir: filepath.Join(dir, "git")})
	hub.AddUser("retake-bot", "token")
	for name, prompt := range map[string]string{
		"acme/widgets": "TEAM on {{.BaseBranch}}: {{.Checks}}\n{{.Issue.Title}}", "acme/site": "a\n{{.Isue}}",
	} {
		seed := filepath.Join(dir, "seed", name)
		check(t, os.MkdirAll(filepath.Join(seed, ".github"), 0o755))
		check(t, os.WriteFile(filepath.Join(seed, ".github", "retake-prompt.md"), []byte(prompt), 0o600))
		check(t, hub.AddRepo(name, seed, map[string]string{"retake-bot": "write", "octocat": "write"}))
		hub.CreateIssue(name, "octocat", "Paint it", "Please.\n<!-- hidden -->", "agent-task")
	}
	web := httptest.NewServer(hub)
	t.Cleanup(web.Close)
	config := fmt.Sprintf(`[github]
api_url = %q
repositories = ["acme/widgets", "acme/site"]
[[stage]]
name = "CODE"
run = ["agent"]
[[stage]]
name = "VALIDATE"
run = ["make", "test"]
`, web.URL+githubtest.APIPath)
	const allow = `printf '[projects]\nallow = ["prompt"]\n' >>retake.toml; `
	const prompt = `GITHUB_TOKEN=token director project prompt `
	const unknown = ": unknown field .Isue, want one of .Issue, "
	for _, c := range []struct {
		command string
		exit    int
		says    string
	}{
		{allow + prompt + `acme/widgets#1`, 0, "\n\nTEAM on main: make test\n> Paint it\n"},
		{prompt + `widgets#1`, 0, "\nThe issue, acme/widgets#1:\n> Paint it\n> \n> Please.\n"},
		{prompt + `widgets#1`, 0, "This is the default prompt, because projects.allow does not contain prompt.\n"},
		{allow + prompt + `acme/site#1`, 1, ".github/retake-prompt.md:2:3" + unknown},
		{allow + `echo OWN >own.md; ` + prompt + `acme/site#1 --template own.md`, 0, "\n\nOWN\n"},
		{prompt + `acme/widgets#9`, 2, "404"},
		{`printf '{{.Isue}}' >own.md; ` + prompt + `--sample --template own.md`, 1, "own.md:1:3" + unknown},
		{`rm retake.toml; echo 'T {{.Attempt}}' >own.md; ` + prompt + `--sample --template own.md`, 0, "\n\nT 4\n"},
		{prompt + `--sample`, 0, "\n> octocat answered: Keep the public functions.\n"},
		{prompt, 2, "want either one issue (owner/repo#21, "},
		{prompt + `acme/widgets#1 --sample`, 2, "want either one issue (owner/repo#21, "},
	} {
		work := t.TempDir()
		check(t, os.WriteFile(filepath.Join(work, "retake.toml"), []byte(config), 0o600))
		out, exit := shell(t, work, c.command)
		if exit != c.exit || !strings.Contains(out, c.says) || strings.Contains(out, "hidden -->") {
			t.Errorf("%s\n  exit %d, want %d, saying %q\n%s", c.command, exit, c.exit, c.says, out)
		}
	}
}
