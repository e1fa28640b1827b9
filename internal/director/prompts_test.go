package director

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"retake/internal/config"
)

const allowPrompts = `
[projects]
allow = ["stage", "prompt"]
[[project]]
repository = "acme/site"
github.base_branch = "trunk"
`

const teamPrompt = `TEAM RULES for {{.Repository}} on {{.BaseBranch}}, attempt {{.Attempt}}.
{{range .Checks}}Run {{.}} first.
{{end}}Fix {{.Issue.Title}} now.
`

// digestForm matches the digest of a contract in the text of `director explain`.
var digestForm = regexp.MustCompile(`\(digest ([0-9a-f]{16})\)`)

func (s *harness) digest(key string) string {
	s.t.Helper()
	told := fmt.Sprintf("%+v", s.explained(key))
	if m := digestForm.FindStringSubmatch(told); m != nil && strings.Contains(told, config.PromptFile) {
		return m[1]
	}
	s.t.Fatalf("explain names no prompt with a digest: %s", told)
	return ""
}

// TestPromptOnTheBaseBranch checks that an agent gets the team's prompt from the base branch in each round, not from
// its own work tree, and that a new prompt changes the digest.
func TestPromptOnTheBaseBranch(t *testing.T) {
	t.Parallel()
	s := newProjects(t, map[string]string{"painter": paints, "builder": `mkdir -p pages
if [ ! -f pages/1.txt ]; then
	cp .retake/prompt.md pages/1.txt
	cp .github/retake-prompt.md pages/saved
	echo "RULES OF THE AGENT" >.github/retake-prompt.md
else
	cp .retake/prompt.md pages/2.txt
	mv pages/saved .github/retake-prompt.md
fi`}, allowPrompts)
	files := map[string]string{
		".github/retake.toml": strings.Replace(siteContract, "pages/index.html", "pages/2.txt", 1),
		config.PromptFile:     teamPrompt,
	}
	s.commits(site, "trunk", files)
	first := s.github.CreateIssue(site, "octocat", "the index", "", "agent-task")
	paint := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	s.until("both are delivered", func() bool {
		return s.labelled(first, "agent-review")() && s.labelled(paint, "agent-review")()
	})
	const want = "\nTEAM RULES for acme/site on trunk, attempt 1.\nRun test -f pages/2.txt first.\n" +
		"Fix\n> the index\n now."
	for round, rejected := range []bool{false, true} {
		got := s.gitIn(site, "show", fmt.Sprintf("retake/1-a1:pages/%d.txt", round+1))
		if !strings.HasPrefix(got, "You are running unattended") || !strings.Contains(got, want) ||
			strings.Contains(got, "OF THE AGENT") ||
			strings.Contains(got, "Your last change (round 1) was rejected.") != rejected {
			t.Errorf("round %d: got the prompt\n%s", round+1, got)
		}
	}
	if told := fmt.Sprintf("%+v", s.explained(paint)); strings.Contains(told, "retake-prompt") {
		t.Errorf("explain names a prompt for a repository without one: %s", told)
	}
	files[config.PromptFile] += "More."
	s.commits(site, "trunk", files)
	second := s.github.CreateIssue(site, "octocat", "again", "", "agent-task")
	s.until("the second is delivered", s.labelled(second, "agent-review"))
	if a, b := s.digest(first), s.digest(second); a == b {
		t.Errorf("both prompts have the digest %s", a)
	}
}

// TestPromptsAreProtected checks that an agent cannot change the prompt of later attempts.
func TestPromptsAreProtected(t *testing.T) {
	t.Parallel()
	s := newProjects(t, map[string]string{
		"painter": paints,
		"builder": buildsPages + ` && mkdir -p .github && echo "Do as I say." >.github/retake-prompt.md`,
	}, allowPrompts)
	s.commits(site, "trunk", map[string]string{".github/retake.toml": siteContract})
	build := s.github.CreateIssue(site, "octocat", "Build", "", "agent-task")
	s.start()
	if asked := s.question(build); !strings.Contains(asked, config.PromptFile) ||
		!strings.Contains(asked, "scope_violation") {
		t.Errorf("the question does not name the protected file: %s", asked)
	}
}

// TestBrokenPromptHoldsItsRepository checks that nothing begins in a repository with a broken template until the
// template is corrected, and that work in other repositories continues. The repository has no contract.
func TestBrokenPromptHoldsItsRepository(t *testing.T) {
	t.Parallel()
	s := newProjects(t, map[string]string{
		"painter": `cp .retake/prompt.md "work-${RETAKE_ISSUE##*#}.txt"`,
	}, allowPrompts)
	s.commits(site, "trunk", map[string]string{config.PromptFile: "Fix it.\n{{.Isue.Title}}\n"})
	s.start()
	const says = ".github/retake-prompt.md:2:3: unknown field .Isue, want one of .Issue"
	s.until("the prompt is read", func() bool { return strings.Contains(s.health(), says) })
	build := s.github.CreateIssue(site, "octocat", "Build", "", "agent-task")
	paint := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.until("the other repository's work", s.labelled(paint, "agent-review"))
	if i := s.github.Issue(build); len(i.Labels) != 1 || len(i.Comments) > 0 {
		t.Errorf("the issue is claimed: %v, %d comments", i.Labels, len(i.Comments))
	}
	if told := s.explained(build); !strings.Contains(told.Waits, says) {
		t.Errorf("explain: it waits for %q", told.Waits)
	}
	s.commits(site, "trunk", map[string]string{config.PromptFile: "TEAM\n{{.Issue.Title}}\n"})
	s.until("the work is delivered", s.labelled(build, "agent-review"))
	if got := s.gitIn(site, "show", "retake/1-a1:work-1.txt"); !strings.Contains(got, "\nTEAM\n> Build") {
		t.Errorf("got the prompt\n%s", got)
	}
	s.digest(build)
}
