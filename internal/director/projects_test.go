package director

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"retake/internal/config"
	"retake/internal/github/githubtest"
)

const site = "acme/site"

// newProjects returns a harness with a second repository. Its base branch is trunk. toml adds [[project]] tables and
// projects.allow to the configuration.
func newProjects(t *testing.T, programs map[string]string, toml string) *harness {
	t.Helper()
	s := newReal(t, programs, code("painter"))
	s.config.GitHub.Repositories = []string{repo, site}
	must(t, s.github.AddRepo(site, filepath.Join(filepath.Dir(s.config.Director.DataDir), "seed"),
		map[string]string{"retake-bot": "write", "octocat": "write"}))
	s.gitIn(site, "branch", "-m", "main", "trunk")
	c, problems := config.Parse("retake.toml", []byte(toml), nil, nil)
	must(t, problems.Err())
	s.config.Projects, s.config.ProjectsAllow = c.Projects, c.ProjectsAllow
	return s
}

// gitIn runs git in a remote repository.
func (s *harness) gitIn(name string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = filepath.Join(filepath.Dir(s.config.Director.DataDir), "git", name+".git")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestProjectsHaveTheirOwnStages runs two repositories with different stages, base branches and protected paths.
func TestProjectsHaveTheirOwnStages(t *testing.T) {
	t.Parallel()
	s := newProjects(t, map[string]string{
		"painter": paints,
		"builder": `mkdir -p pages && echo "$RETAKE_ISSUE" >pages/index.html && [ "$RETAKE_ISSUE" != acme/site#2 ] ||
			{ mkdir -p legal && echo new >legal/terms.txt; }`,
	}, `
[[project]]
repository = "acme/site"
github.base_branch = "trunk"
scope.deny = ["@default", "legal/"]
[[project.stage]]
name = "CODE"
run = ["builder"]
[[project.stage]]
name = "VALIDATE"
run = ["test", "-f", "pages/index.html"]
`)
	paint := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	build := s.github.CreateIssue(site, "octocat", "Build", "", "agent-task")
	law := s.github.CreateIssue(site, "octocat", "Change the terms", "", "agent-task")
	s.start()
	s.until("both are delivered", func() bool {
		return s.labelled(paint, "agent-review")() && s.labelled(build, "agent-review")()
	})
	if files := s.gitIn(repo, "diff", "--name-only", "main", "retake/1-a1"); files != "work-1.txt" {
		t.Errorf("%s: got files %q, want work-1.txt", paint, files)
	}
	if files := s.gitIn(site, "diff", "--name-only", "trunk", "retake/1-a1"); files != "pages/index.html" {
		t.Errorf("%s: got files %q, want pages/index.html", build, files)
	}
	if asked := s.question(law); !strings.Contains(asked, "legal/terms.txt") {
		t.Errorf("the question does not name the protected file: %s", asked)
	}
}

// commits adds a commit with files to a branch of a remote repository. An empty text removes the file.
func (s *harness) commits(name, branch string, files map[string]string) (head string) {
	s.t.Helper()
	lines := "commit refs/heads/" + branch + "\ncommitter A <a@example.com> now\ndata 6\nchange\nfrom refs/heads/" +
		branch + "^0\n"
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if files[path] == "" {
			lines += "D " + path + "\n"
		} else {
			lines += inline(path, files[path]) + "\n"
		}
	}
	cmd := exec.Command("git", "fast-import", "--quiet", "--date-format=now")
	cmd.Dir = filepath.Join(filepath.Dir(s.config.Director.DataDir), "git", name+".git")
	cmd.Stdin = strings.NewReader(lines)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("git fast-import: %v\n%s", err, out)
	}
	return s.gitIn(name, "rev-parse", branch)
}

const siteContract = `
[[stage]]
name = "CODE"
run = ["builder"]
[[stage]]
name = "VALIDATE"
run = ["test", "-f", "pages/index.html"]
`

const allowStages = `
[projects]
allow = ["stage", "scope.deny"]
[[project]]
repository = "acme/site"
github.base_branch = "trunk"
`

const buildsPages = `mkdir -p pages && echo "$RETAKE_ISSUE" >pages/index.html`

// TestContractOnTheBaseBranch checks that an attempt uses the contract of the base branch, and that the journal names
// its commit.
func TestContractOnTheBaseBranch(t *testing.T) {
	t.Parallel()
	s := newProjects(t, map[string]string{"painter": paints, "builder": buildsPages + `
		mkdir -p .github && printf '[[stage]]\nname = "CODE"\nrun = ["painter"]\n' >pages/retake.toml`}, allowStages)
	head := s.commits(site, "trunk", map[string]string{".github/retake.toml": siteContract})
	build := s.github.CreateIssue(site, "octocat", "Build", "", "agent-task")
	paint := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.start()
	s.until("both are delivered", func() bool {
		return s.labelled(paint, "agent-review")() && s.labelled(build, "agent-review")()
	})
	if files := s.gitIn(site, "diff", "--name-only", "trunk", "retake/1-a1"); !strings.Contains(files,
		"pages/index.html") {
		t.Errorf("%s: got files %q, want pages/index.html", build, files)
	}
	if told := fmt.Sprintf("%+v", s.explained(build)); !strings.Contains(told, ".github/retake.toml") ||
		!strings.Contains(told, head[:12]) {
		t.Errorf("explain does not name the contract and its commit %s: %s", head, told)
	}
	if told := fmt.Sprintf("%+v", s.explained(paint)); strings.Contains(told, "retake.toml") {
		t.Errorf("explain names a contract for a repository without one: %s", told)
	}
}

// TestBrokenContractHoldsItsRepository checks that a contract with a mistake leads to one incident in its repository.
// Nothing begins there until the mistake is fixed, and work in other repositories continues.
func TestBrokenContractHoldsItsRepository(t *testing.T) {
	t.Parallel()
	s := newProjects(t, map[string]string{"painter": paints, "builder": buildsPages}, allowStages)
	s.commits(site, "trunk", map[string]string{
		".github/retake.toml": "[[stage]]\nname = \"CODE\"\nrunn = [\"builder\"]\n",
	})
	s.start()
	s.until("the contract is read", func() bool { return strings.Contains(s.health(), "stage[0].runn") })
	build := s.github.CreateIssue(site, "octocat", "Build", "", "agent-task")
	paint := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	const says = ".github/retake.toml:3:1: stage[0].runn: unknown key"
	shown := func() (all []githubtest.Issue) {
		for _, i := range s.github.Issues(site) {
			if strings.HasPrefix(i.Title, "Retake is waiting") {
				all = append(all, i)
			}
		}
		return all
	}
	s.until("an incident", func() bool {
		all := shown()
		return len(all) == 1 && strings.Contains(strings.ReplaceAll(all[0].Body, `\`, ""), says)
	})
	s.until("the other repository's work", s.labelled(paint, "agent-review"))
	if i := s.github.Issue(build); !slices.Equal(i.Labels, []string{"agent-task"}) || len(i.Comments) > 0 {
		t.Errorf("the issue is claimed: %v, %d comments", i.Labels, len(i.Comments))
	}
	if told := s.explained(build); !strings.Contains(told.Waits, says) {
		t.Errorf("explain: it waits for %q", told.Waits)
	}
	s.commits(site, "trunk", map[string]string{".github/retake.toml": siteContract})
	s.until("the work is delivered", s.labelled(build, "agent-review"))
	s.until("the incident is closed", func() bool { return len(shown()) == 1 && shown()[0].State == "closed" })
}

// TestContractThatBreaksBeforeAStart checks that an attempt that meets a broken contract waits without a charge, a slot
// or a question, and begins with the corrected contract.
func TestContractThatBreaksBeforeAStart(t *testing.T) {
	t.Parallel()
	s := newProjects(t, map[string]string{"painter": paints, "builder": buildsPages}, allowStages)
	s.commits(site, "trunk", map[string]string{".github/retake.toml": siteContract})
	s.config.Director.MaxWorkers = 1
	s.start()
	s.until("it decides", func() bool { return strings.HasPrefix(s.health(), "healthy") })
	s.commits(site, "trunk", map[string]string{".github/retake.toml": "containers.mounts = [\"/:/host\"]\n"})
	build := s.github.CreateIssue(site, "octocat", "Build", "", "agent-task")
	s.until("it waits", func() bool { return strings.Contains(s.waitsFor(build), "containers.mounts") })
	paint := s.github.CreateIssue(repo, "octocat", "Paint", "", "agent-task")
	s.until("the other repository gets the slot", s.labelled(paint, "agent-review"))
	s.commits(site, "trunk", map[string]string{".github/retake.toml": siteContract})
	s.until("the work is delivered", s.labelled(build, "agent-review"))
	if n := len(s.github.Issue(build).Comments); n > 2 {
		t.Errorf("%d comments, want at most 2", n)
	}
}

// TestRouteByLabel checks that a route selects the model by label, and that explain names the route.
func TestRouteByLabel(t *testing.T) {
	t.Parallel()
	s := newReal(t, map[string]string{"painter": `echo "model: $RETAKE_MODEL" >model.txt`},
		config.Stage{Name: "CODE", Run: []string{"painter"}, Model: "large", Timeout: time.Minute})
	s.config.Routes = []config.Route{
		{Attempt: 2, Model: "huge"},
		{Labels: []string{"Docs"}, Attempt: 1, Model: "small"},
	}
	docs := s.github.CreateIssue(repo, "octocat", "Docs", "", "agent-task", "docs")
	code := s.github.CreateIssue(repo, "octocat", "Code", "", "agent-task")
	s.start()
	s.until("both are delivered", func() bool {
		return s.labelled(code, "agent-review")() && slices.Contains(s.labels(docs), "agent-review")
	})
	for branch, want := range map[string]string{"retake/1-a1": "model: small", "retake/2-a1": "model: large"} {
		if got := s.gitIn(repo, "show", branch+":model.txt"); got != want {
			t.Errorf("%s: got %q, want %q", branch, got, want)
		}
	}
	const says = "It uses route[1] (labels Docs: model small)"
	if told := fmt.Sprintf("%+v", s.explained(docs)); !strings.Contains(told, says) {
		t.Errorf("explain does not say %q: %s", says, told)
	}
}

// TestRepositoryWithoutStages checks that missing stages hold a repository as a broken contract does. Workers would
// refuse an empty plan.
func TestRepositoryWithoutStages(t *testing.T) {
	t.Parallel()
	s := newProjects(t, map[string]string{"builder": buildsPages}, allowStages)
	s.config.Stages = nil
	s.config.GitHub.Repositories = []string{site}
	build := s.github.CreateIssue(site, "octocat", "Build", "", "agent-task")
	s.start()
	s.until("health says why", func() bool { return strings.Contains(s.health(), "no stages are defined") })
	s.commits(site, "trunk", map[string]string{".github/retake.toml": siteContract})
	s.until("the work is delivered", s.labelled(build, "agent-review"))
}
