package config

import (
	"slices"
	"strings"
	"testing"
)

const twoProjects = `
[github]
repositories = ["acme/shop", "acme/site"]
[containers]
memory = "4GiB"
[[stage]]
name = "CODE"
run = ["agent"]
[[project]]
repository = "Acme/Site"
github.base_branch = "trunk"
containers = { image = "site:1", memory = "8GiB" }
[[project.stage]]
name = "CODE"
run = ["agent"]
[[project.stage]]
name = "VALIDATE"
run = ["npm", "test"]
`

func mustParse(t *testing.T, text string) Config {
	t.Helper()
	c, problems := Parse("test.toml", []byte(text), nil, nil)
	if len(problems) > 0 {
		t.Fatalf("unexpected problems:\n%s", problems)
	}
	return c
}

func TestProjectOverridesKeys(t *testing.T) {
	c := mustParse(t, twoProjects)
	shop, site := c.For("acme/shop"), c.For("acme/site")
	if shop.GitHub.BaseBranch != "main" || len(shop.Stages) != 1 ||
		shop.Containers.Image != Default().Containers.Image {
		t.Errorf("a repository without [[project]] has other values than the global ones: %s", shop)
	}
	if site.GitHub.BaseBranch != "trunk" || site.Containers.Image != "site:1" || site.Containers.Memory != "8GiB" ||
		site.Containers.CPUs != c.Containers.CPUs {
		t.Errorf("the project's keys are not merged with the global ones: %s", site)
	}
	if len(site.Stages) != 2 || site.Stages[1].Name != "VALIDATE" || site.Stages[1].Timeout == 0 {
		t.Errorf("got stages %+v, want the project's with defaults", site.Stages)
	}
}

// TestProjectsSurviveTheirText checks that the text of a configuration, from which its digest is computed, contains its
// projects.
func TestProjectsSurviveTheirText(t *testing.T) {
	c := mustParse(t, twoProjects)
	again := mustParse(t, c.String())
	if again.String() != c.String() || again.For("acme/site").String() != c.For("acme/site").String() {
		t.Errorf("got\n%s\nwant\n%s", again, c)
	}
	other := mustParse(t, strings.Replace(twoProjects, "site:1", "site:2", 1))
	if other.Digest(nil) == c.Digest(nil) {
		t.Error("two configurations with different projects have the same digest")
	}
	if _, change, _ := c.Reread(other); !slices.Equal(change.Keys, []string{"project"}) {
		t.Errorf("got changed keys %v, want project", change.Keys)
	}
}

func TestProjectProblems(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"no table": {`project = 1`, "test.toml:1:1: project: got 1, want [[project]] for each repository"},
		"no repository": {
			"[[project]]\ncontainers.cpus = 2.0",
			`test.toml:1:3: project[0].repository: want the repository of the project as "owner/name"`,
		},
		"a repository twice": {
			"[[project]]\nrepository = \"a/b\"\n[[project]]\nrepository = \"A/B\"",
			"test.toml:4:1: project[1].repository: a second project for \"A/B\", want one per repository",
		},
		"a key of the director": {
			"[[project]]\nrepository = \"a/b\"\ndirector.max_workers = 2",
			"test.toml:3:10: project[0].director.max_workers: this key is the same for all repositories: move it",
		},
		"an unknown key": {
			"[[project]]\nrepository = \"a/b\"\ncontainers.imagine = \"x\"",
			"test.toml:3:12: project[0].containers.imagine: unknown key, did you mean containers.image?",
		},
		"an unknown key of a section without project keys": {
			"[[project]]\nrepository = \"a/b\"\ndirector.xyz = \"x\"",
			"test.toml:3:10: project[0].director.xyz: unknown key, want one of containers, github, recovery, ",
		},
		"an unsupported key": {
			"[[project]]\nrepository = \"a/b\"\ncontainers.scale_to_zero_idle_seconds = 1",
			"test.toml:3:12: project[0].containers.scale_to_zero_idle_seconds: not supported yet",
		},
		"a repository that is not served": {
			"[[project]]\nrepository = \"a/b\"\n[github]\nrepositories = [\"a/c\"]",
			"test.toml:2:1: project[0].repository: not in github.repositories: add it there, or remove the project",
		},
		"no stages": {
			"[[project]]\nrepository = \"a/b\"\nstage = []",
			"test.toml:3:1: project[0].stage: empty list, want at least one stage",
		},
		"a value out of range": {
			"[[project]]\nrepository = \"a/b\"\n[project.containers]\ncpus = -1.0",
			"test.toml:4:1: project[0].containers.cpus: got -1",
		},
		"stages without CODE": {
			"[[project]]\nrepository = \"a/b\"\n[[project.stage]]\nname = \"VALIDATE\"\nrun = [\"x\"]",
			"test.toml:3:11: project[0].stage: CODE is missing",
		},
		"a secret": {
			"[[project]]\nrepository = \"a/b\"\ncontainers.image = \"ghp_" + strings.Repeat("a", 36) + "\"",
			"test.toml:3:12: project[0].containers.image: looks like a secret",
		},
	} {
		t.Run(name, func(t *testing.T) { wantProblem(t, row.text, row.want) })
	}
}

func wantProblem(t *testing.T, text, want string) {
	t.Helper()
	if _, problems := Parse("test.toml", []byte(text), nil, nil); !hasProblem(problems, want) {
		t.Errorf("problems:\n%s\nnone begins with\n%s", problems, want)
	}
}

func hasProblem(problems Problems, want string) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return strings.HasPrefix(p.String(), want) })
}

const contractFile = ".github/retake.toml"

func operator(t *testing.T) Config {
	t.Helper()
	return mustParse(t, `
[projects]
allow = ["stage", "containers.image", "containers.memory", "containers.pids", "scope.deny", "scope.ask",
  "worker.fix_attempts"]
[worker]
fix_attempts = 4
[[stage]]
name = "CODE"
run = ["agent"]
`)
}

func TestContract(t *testing.T) {
	c := operator(t)
	got, problems := Contract(c, contractFile, []byte(`
containers = { image = "shop:2", memory = "512MiB" }
scope.deny = ["migrations/"]
worker.fix_attempts = 2
[[stage]]
name = "CODE"
agent = "claude-code"
[[stage]]
name = "VALIDATE"
run = ["make", "test"]
`), false)
	if len(problems) > 0 {
		t.Fatalf("unexpected problems:\n%s", problems)
	}
	if got.Containers.Image != "shop:2" || got.Containers.Memory != "512MiB" || got.Worker.FixAttempts != 2 {
		t.Errorf("the contract's keys do not count: %s", got)
	}
	if !slices.Equal(got.Scope.Deny, append(slices.Clone(c.Scope.Deny), "migrations/")) {
		t.Errorf("got scope.deny %q, want both lists", got.Scope.Deny)
	}
	if len(got.Stages) != 2 || got.Stages[0].Agent != "claude-code" {
		t.Errorf("got stages %+v, want two", got.Stages)
	}
	if got.Director != c.Director || got.GitHub.APIURL != c.GitHub.APIURL {
		t.Error("the contract changed keys of the director")
	}
	if again := operator(t); again.String() != c.String() {
		t.Error("the contract changed the operator's configuration")
	}
}

func TestContractProblems(t *testing.T) {
	c := operator(t)
	for name, row := range map[string]struct{ text, want string }{
		"no TOML": {"stage = [", "1:9: not TOML"},
		"above a limit": {
			"\n worker.fix_attempts = 5",
			"2:9: worker.fix_attempts: it exceeds the operator's limit, want at most 4",
		},
		"too much memory": {
			`containers.memory = "3GiB"`, `1:12: containers.memory: it exceeds the operator's limit, want at most "2GiB"`,
		},
		"a key that is not allowed": {
			"containers.cpus = 1.0", `1:12: containers.cpus: the operator does not allow this key: remove it, or ask ` +
				`the operator to add "containers.cpus" to projects.allow`,
		},
		"a key of the operator": {
			`github.base_branch = "evil"`, "1:8: github.base_branch: only the operator can set this key",
		},
		"a secret of the director": {
			`github.token_env = "HOME"`, "1:8: github.token_env: this key belongs to the director's configuration",
		},
		"a mount": {
			`containers.mounts = ["/:/host"]`, "1:12: containers.mounts: this key belongs to the director's configuration",
		},
		"a project": {
			"[[project]]\nrepository = \"a/b\"", "1:3: project: this key belongs to the director's configuration",
		},
		"less protection": {`scope.deny = ["!.github/"]`, "1:7: scope.deny: a contract cannot permit protected paths"},
		"no CODE":         {"[[stage]]\nname = \"VALIDATE\"\nrun = [\"x\"]", "1:3: stage: CODE is missing"},
		"an agent that is not there": {
			"[[stage]]\nname = \"CODE\"\nagent = \"claud-code\"",
			`3:1: stage[0].agent: no agent "claud-code", did you mean claude-code?`,
		},
		"a long file":  {"# " + strings.Repeat("x", 10<<20), "1:1: the contract exceeds the limit"},
		"deep tables":  {strings.Repeat("a.", 5000) + "b = 1", "1:1: a: a contract has no such key"},
		"a wrong name": {`containers.imag = "x"`, "1:12: containers.imag: a contract has no such key, did you mean containers.image?"},
		"binary bytes": {"\x00\x01", "1:1: not UTF-8 text"},
		"no stages":    {"stage = []", "1:1: stage: empty list, want at least one stage"},
		"routes that are not allowed": {
			"route = []", "1:1: route: the operator does not allow this key",
		},
		"unpaid calls": {
			"[[stage]]\nname = \"CODE\"\nrun = [\"x\"]\npaid = \"never\"",
			"4:1: stage[0].paid: a contract cannot exclude calls from recovery.paid_call_budget",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := Contract(c, contractFile, []byte(row.text), false)
			if !hasProblem(problems, contractFile+":"+row.want) {
				t.Errorf("problems:\n%s\nnone begins with\n%s", problems, contractFile+":"+row.want)
			}
		})
	}
}

// TestContractKeysExist checks that every project key is a key of the configuration.
func TestContractKeysExist(t *testing.T) {
	for key := range projectKeys {
		known := slices.ContainsFunc(allRows, func(r row) bool { return r.key == key })
		if !known && key != "stage" && key != "route" {
			t.Errorf("project key %s has no row", key)
		}
	}
	if slices.Contains(ContractKeys(), "github.base_branch") {
		t.Error("a contract on the base branch can select the base branch")
	}
}
