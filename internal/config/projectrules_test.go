package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"retake/internal/recovery/policy"
)

// TestProjectRulesUseTheWholeConfiguration checks that the rules of a project consider variables and the files in
// [recovery].
func TestProjectRulesUseTheWholeConfiguration(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "agents.toml"),
		"[[agent]]\nname = \"my-agent\"\nprogram = \"x\"\nargs = [\"{prompt}\"]\n")
	file := filepath.Join(dir, "c.toml")
	writeFile(t, file, `
[recovery]
agents_file = "agents.toml"
[timeouts]
worker_watchdog_seconds = 600
[[project]]
repository = "a/b"
[[project.stage]]
name = "CODE"
agent = "my-agent"
timeout_seconds = 1200
`)
	longer := []string{"RETAKE_CFG_TIMEOUTS_WORKER_WATCHDOG_SECONDS=3600"}
	if _, problems := Load(file, longer, nil); len(problems) > 0 {
		t.Errorf("unexpected problems:\n%s", problems)
	}
	const want = ":11:1: project[0].stage[0].timeout_seconds: 1200 is longer than the whole attempt may take"
	if _, problems := Load(file, nil, nil); len(problems) != 1 || !strings.Contains(problems.String(), want) {
		t.Errorf("got problems\n%s\nwant one with %s", problems, want)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestProjectsDoNotRepeatProblems checks that a problem between global keys is reported once.
func TestProjectsDoNotRepeatProblems(t *testing.T) {
	_, problems := Parse("test.toml", []byte(twoProjects+`
[agent_bus]
replicas = 2
`), nil, nil)
	if len(problems) != 1 || problems[0].Key != "agent_bus.replicas" {
		t.Errorf("got problems\n%s\nwant one", problems)
	}
}

// TestGlobalKeysBreakProjects checks a rule between a global key and a project's stages. Reread checks it as well,
// because a key that needs a restart keeps its old value.
func TestGlobalKeysBreakProjects(t *testing.T) {
	const project = `
[[stage]]
name = "CODE"
run = ["x"]
[[stage]]
name = "VALIDATE"
run = ["x"]
[[project]]
repository = "a/b"
[[project.stage]]
name = "CODE"
run = ["x"]
[[project.stage]]
name = "VALIDATE"
`
	const fresh, program, agent = "worker.validate = \"fresh\"", "run = [\"y\"]\n", "agent = \"codex\"\n"
	wantProblem(t, fresh+project+agent, "test.toml:10:11: project[0].stage: VALIDATE calls a model")
	before, after := mustParse(t, fresh+project+program), mustParse(t, project+agent)
	_, _, problems := before.Reread(after)
	if want := "reload: project[0].stage: VALIDATE calls a model"; !hasProblem(problems, want) {
		t.Errorf("problems:\n%s\nnone begins with\n%s", problems, want)
	}
}

// TestBranchOfProjectWaits checks that a running director keeps the base branch of each repository until it restarts.
func TestBranchOfProjectWaits(t *testing.T) {
	before := mustParse(t, twoProjects)
	global, _, _ := strings.Cut(twoProjects, "[[project]]")
	const waits = "project[Acme/Site].github.base_branch"
	for name, text := range map[string]string{
		"another branch": strings.Replace(twoProjects, "trunk", "next", 1),
		"no branch":      strings.Replace(twoProjects, "github.base_branch = \"trunk\"\n", "", 1),
		"no project":     global,
	} {
		next := mustParse(t, text)
		asRead := next.String()
		running := before
		for range 2 {
			got, change, problems := running.Reread(next)
			if got.For("acme/site").GitHub.BaseBranch != "trunk" || !slices.Equal(change.Restart, []string{waits}) ||
				len(problems) > 0 {
				t.Errorf("%s: got branch %s, restart %v, problems %v", name, got.For("acme/site").GitHub.BaseBranch,
					change.Restart, problems)
			}
			if noted := slices.Contains(change.Keys, "project"); noted != (name == "no project" && running.String() ==
				before.String()) {
				t.Errorf("%s: got changed keys %v", name, change.Keys)
			}
			running = got
		}
		if next.String() != asRead {
			t.Errorf("%s: Reread changed its argument", name)
		}
	}
	image := mustParse(t, strings.Replace(twoProjects, "site:1", "site:2", 1))
	if got, change, _ := before.Reread(image); got.For("acme/site").Containers.Image != "site:2" ||
		len(change.Restart) > 0 {
		t.Errorf("another image waits for %v", change.Restart)
	}
}

// TestProjectWithoutRoutes checks that a project can remove the global routes, and that its text contains this.
func TestProjectWithoutRoutes(t *testing.T) {
	c := mustParse(t, oneStage+"[[route]]\nmodel = \"m\"\n[[project]]\nrepository = \"a/b\"\nroute = []\n")
	for _, c := range []Config{c, mustParse(t, c.String())} {
		if len(c.For("a/b").Routes) != 0 || len(c.Routes) != 1 {
			t.Errorf("got routes %v, want none for a/b", c.For("a/b").Routes)
		}
	}
}

// TestAcceptedContract checks that a later change of the operator does not make an accepted contract invalid.
func TestAcceptedContract(t *testing.T) {
	c := operator(t)
	const contract = "[[stage]]\nname = \"CODE\"\nagent = \"gone\"\ntimeout_seconds = 100000\npaid = \"never\""
	if _, problems := Contract(c, contractFile, []byte(contract), true); len(problems) > 0 {
		t.Errorf("an accepted contract has problems:\n%s", problems)
	}
	if _, problems := Contract(c, contractFile, []byte(contract), false); len(problems) != 3 {
		t.Errorf("got problems\n%s\nwant 3", problems)
	}
}

// TestContractAddsToAllowedPaths checks that a contract keeps the operator's table of allowed paths.
func TestContractAddsToAllowedPaths(t *testing.T) {
	c := mustParse(t, oneStage+"[projects]\nallow = [\"scope.allow\"]\n[scope.allow]\nci = [\"a/\"]\n")
	got, problems := Contract(c, contractFile, []byte("scope.allow = { ci = [\"b/\"], docs = [\"c/\"] }"), false)
	if len(problems) > 0 || !slices.Equal(got.Scope.Allow["ci"], []string{"a/", "b/"}) ||
		!slices.Equal(got.Scope.Allow["docs"], []string{"c/"}) || len(c.Scope.Allow) != 1 {
		t.Errorf("got scope.allow %v, %v; the operator has %v", got.Scope.Allow, problems, c.Scope.Allow)
	}
}

func TestIsContract(t *testing.T) {
	const director, contract = "[director]\nmax_workers = 1\n", "containers.image = \"x\"\n"
	for _, row := range []struct {
		name, text string
		want       bool
	}{
		{LocalFile, director, false},
		{LocalFile, contract, true},
		{LocalFile, "stage = [", true},
		{contractFile, director, true},
	} {
		if got := IsContract(row.name, []byte(row.text)); got != row.want {
			t.Errorf("%s with %q: got %v, want %v", row.name, row.text, got, row.want)
		}
	}
}

// TestContractDoesNotReadThePolicyFile checks that a contract's callers are checked against the policy that Load read,
// even if the file has changed since.
func TestContractDoesNotReadThePolicyFile(t *testing.T) {
	dir := t.TempDir()
	policyFile, file := filepath.Join(dir, "p.toml"), filepath.Join(dir, "c.toml")
	writeFile(t, policyFile, "[[row]]\non = \"*\"\ncaller = \"lint\"\nthen = \"stop\"\n")
	writeFile(t, file, "projects.allow = [\"stage\"]\nrecovery.policy_file = \"p.toml\"\n")
	c, problems := Load(file, nil, nil)
	if len(problems) > 0 {
		t.Fatalf("unexpected problems:\n%s", problems)
	}
	writeFile(t, policyFile, "\n")
	const contract = "[[stage]]\nname = \"CODE\"\nrun = [\"x\"]\ncaller = \"lint\"\n"
	if _, problems := Contract(c, contractFile, []byte(contract), false); len(problems) > 0 {
		t.Errorf("unexpected problems:\n%s", problems)
	}
}

// TestProjectBudgetOverridesPolicy checks that a project's budget takes precedence over a policy, even if the budget is
// equal to the default.
func TestProjectBudgetOverridesPolicy(t *testing.T) {
	c := mustParse(t, "[[project]]\nrepository = \"a/b\"\nrecovery.paid_call_budget = 10\n")
	if assumed := c.For("a/b").Limits().Assumed; slices.Contains(assumed, policy.BoundPaidCalls) ||
		!slices.Contains(assumed, policy.BoundCost) {
		t.Errorf("got assumed bounds %v, want all but the paid calls", assumed)
	}
}
