package main

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/director/operator"
)

// TestEveryCommandFindsItsConfiguration checks the order -c, RETAKE_CONFIG, retake.toml, template, and that errors
// name the file.
func TestEveryCommandFindsItsConfiguration(t *testing.T) {
	const files = `for f in named of-env retake config/dev; do mkdir -p config; printf '[director]\nfleet = "%s"\n' $(basename $f) >$f.toml; done; `
	for _, c := range []struct {
		command string
		exit    int
		says    string
	}{
		{files + `RETAKE_CONFIG=of-env.toml director config show -c named.toml`, 0, `fleet = "named"`},
		{files + `RETAKE_CONFIG=of-env.toml director config show`, 0, `fleet = "of-env"`},
		{files + `director config show`, 0, `fleet = "retake"`},
		{files + `rm retake.toml; director config show`, 0, `fleet = "dev"`},
		{files + `director config show -c ''`, 0, `fleet = "default"`},
		{`director config show`, 2, "config: no file found: RETAKE_CONFIG is not set, and neither retake.toml " +
			"nor config/dev.toml exists in /"},
		{`director run`, 2, "director config init"},
		{`director doctor`, 2, "config: no file found"},
		{`RETAKE_CONFIG=none.toml director health`, 2, "cannot read the configuration file set in RETAKE_CONFIG: " +
			"stat none.toml: no such file"},
		{`director status -c none.toml`, 2, "none.toml: no such file or directory; create it with `director config " +
			"init --output none.toml`, or select another file with -c"},
		// Commands with an optional configuration use one if it exists, but not the template.
		{files + `director policy check`, 0, "director: ok, with the limits of retake.toml"},
		{files + `RETAKE_CONFIG=of-env.toml director policy check`, 0, "director: ok, with the limits of of-env.toml"},
		{files + `rm retake.toml; director policy check`, 0, "director: ok, with the built-in limits"},
		{`echo '{}' | director classify`, 0, `"reason":"unknown"`},
	} {
		out, exit := shell(t, t.TempDir(), c.command)
		if exit != c.exit || !strings.Contains(out, c.says) {
			t.Errorf("%s\n  exit %d, want %d, saying %q\n%s", c.command, exit, c.exit, c.says, out)
		}
	}
}

func TestConfigInitWritesWhatCheckAccepts(t *testing.T) {
	const init = `director config init --repository acme/widgets --agent claude-code --check 'go test ./...' --check 'test -z "$(gofmt -l .)"'`
	for _, c := range []struct {
		command string
		exit    int
		says    string
	}{
		{init + ` >/dev/null && GITHUB_TOKEN=t ANTHROPIC_API_KEY=k director config check`, 0, "retake.toml: ok\n"},
		{init + ` >/dev/null && director config check`, 1, "problem: github.token_env: no GitHub token"},
		{init + ` --output of/mine.toml`, 0, "written: of/mine.toml\n\nnext:\n  export GITHUB_TOKEN=…\n  export " +
			"ANTHROPIC_API_KEY=…\n  director doctor -c of/mine.toml\n  director run -c of/mine.toml\n"},
		{init + ` >/dev/null; cat retake.toml`, 0, `run = ["sh", "-c", "test -z \"$(gofmt -l .)\""]`},
		{
			`CLAUDE_CODE_OAUTH_TOKEN=x ` + init + ` >/dev/null; cat retake.toml`, 0,
			`env_passthrough = ["CLAUDE_CODE_OAUTH_TOKEN"]`,
		},
		{
			`echo mine >retake.toml; ` + init + `; cat retake.toml`, 0,
			"retake.toml already exists: use --force to replace it, or --output to choose another file\nmine\n",
		},
		{`echo mine >retake.toml; ` + init, 1, ""},
		{`echo mine >retake.toml; ` + init + ` --force`, 0, "written: retake.toml"},
		{`director config init --repository acme/widgets --run 'python3 mine.py' >/dev/null && GITHUB_TOKEN=t director config check`, 0, "retake.toml: ok\n"},
		{`director config init </dev/null`, 2, "without a terminal: add --repository and --agent, e.g."},
		{
			`director config init --repository acme --agent claude-code; ls`, 0,
			`got "acme", want "owner/name", without .git`,
		},
		{
			`director config init --repository acme/widgets --agent claude-cod`, 2,
			"--agent claude-cod: unknown profile, did you mean claude-code?",
		},
		{`director config init --repository acme/widgets --agent pi --run x`, 2, "[agent run]"},
	} {
		dir := t.TempDir()
		out, exit := shell(t, dir, c.command)
		if exit != c.exit || !strings.Contains(out, c.says) {
			t.Errorf("%s\n  exit %d, want %d, saying %q\n%s", c.command, exit, c.exit, c.says, out)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp-*")); left != nil {
			t.Errorf("%s leaves %q", c.command, left)
		}
	}
}

// TestConfigInitAsks checks that config init asks for missing flags on a terminal, and that an empty answer selects the
// default.
func TestConfigInitAsks(t *testing.T) {
	var out bytes.Buffer
	s := starting{output: filepath.Join(t.TempDir(), "asked.toml")}
	c := configInitCommand(nil)
	c.SetIn(strings.NewReader("\nacme/widgets, acme/gadgets\n\nacme/dev:2\npi\ngo test ./...\n"))
	c.SetOut(&out)
	s.branch = "main"
	if err := s.complete(c, true); err != nil {
		t.Fatal(err)
	}
	if err := s.write(&out); err != nil {
		t.Fatal(err)
	}
	cfg, problems := config.Load(s.output, nil, nil)
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	if strings.Join(cfg.GitHub.Repositories, " ") != "acme/widgets acme/gadgets" || cfg.GitHub.BaseBranch != "main" ||
		cfg.Containers.Image != "acme/dev:2" ||
		cfg.Stages[0].Agent != "pi" || len(cfg.Stages) != 2 || cfg.GitHub.Writes {
		t.Errorf("%s\n%v", &out, cfg)
	}
	if q := s.questions()[0]; q.ask(bufio.NewReader(strings.NewReader("\n")), &out, "") == nil {
		t.Error("a required answer may be empty")
	}
}

func TestConfigShowOrigin(t *testing.T) {
	const file = `printf '[github]\nrepositories = ["acme/widgets"]\n' >retake.toml; `
	for command, want := range map[string]string{
		`director config show --origin | grep -w github.repositories`:                                                          "github.repositories  retake.toml:2  [\"acme/widgets\"]",
		`RETAKE_CFG_DIRECTOR_FLEET=x director config show --origin | grep -w director.fleet`:                                   "director.fleet  variable RETAKE_CFG_DIRECTOR_FLEET  \"x\"",
		`director config show --origin --set director.max_workers=7 | grep -w max_workers`:                                     "director.max_workers  --set  7",
		`director config show --origin | grep -w lease_seconds`:                                                                "director.lease_seconds  default  10",
		`director config show --origin --set recovery.iteration_budget=0 --set recovery.preset=gdd | grep -w iteration_budget`: "recovery.iteration_budget  policy gdd  50",
		`director config show --json | grep -o '{"key":"github.repositories"[^}]*}'`:                                           `{"key":"github.repositories","value":"[\"acme/widgets\"]","from":"file","where":"retake.toml:2"}`,
	} {
		out, _ := shell(t, t.TempDir(), file+command)
		if got := strings.Join(strings.Fields(out), " "); !strings.Contains(got,
			strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%s\n got %s\nwant %s", command, got, want)
		}
	}
	for _, command := range []string{
		"director config show --origin", "director config show --json",
		"director config show",
	} {
		if out, _ := shell(t, t.TempDir(), strings.Replace(file, "[github]", "[agent_bus]\\n[github]", 1)+
			`RETAKE_CFG_AGENT_BUS_URL=tls://me:hunter22hunter22@nats RETAKE_CFG_AGENT_BUS_CREDENTIALS=k `+
			command); strings.Contains(out, "hunter22") {
			t.Errorf("%s shows a password:\n%s", command, out)
		}
	}
}

func TestVersion(t *testing.T) {
	for command, want := range map[string]string{
		"director --version": "retake ",
		"director version": "protocol  " + wire.ProtocolVersion + ", " + wire.SchemaVersion +
			": budget_acquire.v1, ",
		"director version --json": `"snapshot":`,
	} {
		out, exit := shell(t, t.TempDir(), command)
		if exit != 0 || !strings.Contains(out, want) || command != "director version" && strings.Count(out, "\n") != 1 {
			t.Errorf("%s: exit %d\n%s", command, exit, out)
		}
	}
}

func TestCompletion(t *testing.T) {
	runs := answering(t, operator.Health{OK: true}, wire.Snapshot{
		Tasks:     []wire.SnapshotTask{{Issue: "a/b#1", State: "Blocked"}, {Issue: "a/b#21", State: "Running"}},
		Cooldowns: []wire.SnapshotCooldown{{Resource: "model.x", Why: "429"}, {Resource: "incident/host/disk_full"}},
	})
	none := t.TempDir()
	for _, c := range []struct{ dir, line, want string }{
		{runs, `budget show ""`, "a/b#1\tBlocked\na/b#21\tRunning\n:4\n"},
		{runs, `explain a/b#1`, "a/b#1\tBlocked\n:4\n"},
		{runs, `retry a/b#2`, "a/b#21\tRunning\n:4\n"},
		{runs, `budget reset a/b#2`, "a/b#21\tRunning\n:4\n"},
		{runs, `budget reset a/b#21 ""`, ":4\n"},
		{none, `budget show ""`, ":4\n"},
		{runs, `cooldown lift ""`, "model.x\t429\n:4\n"},
		{runs, `cooldown lift model.x ""`, ":4\n"},
		{none, `agents try claude`, "claude-code\n:4\n"},
		{none, `agents try pi rate-limit-h`, "rate-limit-hour\t429 with a one-hour Retry-After\n:4\n"},
		{none, `policy show --preset g`, "gdd\n:4\n"},
		{none, `classify --stage V`, "VALIDATE\n:4\n"},
		{none, `run --log-level d`, "debug\n:4\n"},
		{none, `run ""`, ":4\n"},
		{none, `run --set director.max_w`, "director.max_workers=\tMaximum number of worker containers that run at the " +
			"same time.\n:6\n"},
		{none, `run --set containers.runtime=d`, "containers.runtime=docker\n:4\n"},
		{none, `run --set github.writes=`, "github.writes=true\ngithub.writes=false\n:4\n"},
		{none, `journal export ""`, ":0\n"},
	} {
		out, exit := shell(t, t.TempDir(), "touch retake.toml; RETAKE_CFG_DIRECTOR_DATA_DIR="+c.dir+
			" director __complete "+c.line+" 2>/dev/null")
		if exit != 0 || out != c.want {
			t.Errorf("%s: exit %d\n got %q\nwant %q", c.line, exit, out, c.want)
		}
	}
	for _, sh := range []string{"bash", "zsh", "fish"} {
		if out, exit := shell(t, t.TempDir(), "director completion "+sh); exit != 0 ||
			!strings.Contains(out, "__complete") {
			t.Errorf("%s: exit %d", sh, exit)
		}
	}
}

// TestDoctorSaysWhatIsInTheWay runs the whole command with the offline checks. The package's own tests cover the rest.
func TestDoctorSaysWhatIsInTheWay(t *testing.T) {
	const files = `printf '[github]\nrepositories = ["acme/widgets"]\n[director]\ndata_dir = "data"\n[containers]\nruntime = "process"\n[[stage]]\nname = "CODE"\nrun = ["true"]\n' >retake.toml; printf '\177ELF' >worker; chmod +x worker; `
	well := answering(t, operator.Health{OK: true, RunID: "run_1", Phase: "MONITOR"}, wire.Snapshot{})
	for _, c := range []struct {
		command string
		exit    int
		says    string
	}{
		{`GITHUB_TOKEN=t director doctor --offline --worker-binary worker`, 0, "no problems found"},
		{
			`GITHUB_TOKEN=t director doctor --offline --worker-binary worker --json`, 0,
			`{"ok":true,"findings":[{"check":"configuration","level":"ok","text":"retake.toml (in the working directory)"},`,
		},
		{`director doctor --offline --worker-binary worker`, 1, "the director cannot run with these problems: 1 problem"},
		{
			`director doctor --offline --worker-binary worker --set director.data_dir=` + well, 1,
			"A director is running with this data directory and is healthy (run_1, phase MONITOR, 0 tasks). ",
		},
		{`director doctor --worker-binary worker`, 1, "not tried  labels"},
		{`printf '[github]\nnope = 1\n' >retake.toml; director doctor`, 1, "retake.toml:2:1: github.nope: unknown key"},
		{
			`printf '[github]\nnope = 1\n' >retake.toml; director config check`, 2,
			"retake.toml:2:1: github.nope: unknown key",
		},
		{`director doctor --help`, 0, "base branch    github   github.base_branch exists in each repository."},
		{`director doctor now`, 2, `unknown command "now"`},
	} {
		dir := t.TempDir()
		out, exit := shell(t, dir, files+c.command)
		if exit != c.exit || !strings.Contains(out, c.says) {
			t.Errorf("%s\n  exit %d, want %d, saying %q\n%s", c.command, exit, c.exit, c.says, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "data")); !os.IsNotExist(err) {
			t.Errorf("%s leaves the data directory: %v", c.command, err)
		}
	}
}
