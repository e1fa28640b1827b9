package config

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// faulty is a configuration with every type of problem, and faults has the expected problems.
const (
	faulty = `[director]
max_workers = 0
max_worker = 5
fleet = "Bad Fleet"
interval_seconds = "60s"

[timeout]
worker_start_seconds = 1

[timeouts]
worker_heartbeat_ttl_seconds = 20
issue_claim_stale_seconds = 1

[containers]
runtime = "podman"
scale_to_zero_idle_seconds = 300
user = "0:0"
memory = "lots"
mounts = ["/x:/y", "/var/run/docker.sock:/s", "/z"]

[agent_bus]
prefix = "a.>"
listen_port = 70000

[github]
repositories = ["acme/widgets", "nonsense"]
api_url = "ftp://x"
token = "abc"
labels = { task = "a", claimed = "A" }
token_env = "ghp_0123456789abcdefghij"

[recovery]
preset = "cortx"
paid_call_budget = -2

[[stage]]
name = "CODE"
agent = "claude"
alternative_model = "-x"
resource = "github.write"
caller = "update-check"
state_paths = ["scratch/", "/x", "**"]
`

	faults = `c.toml:2:1: director.max_workers: got 0, want an integer from 1 to 100
c.toml:3:1: director.max_worker: unknown key, did you mean director.max_workers?
c.toml:4:1: director.fleet: got "Bad Fleet", want 1 to 32 of a-z, 0-9 and -, beginning with a letter
c.toml:5:1: director.interval_seconds: got "60s", want a number of seconds from 0.1 to 3600
c.toml:7:2: timeout: unknown key or section, did you mean timeouts?
c.toml:11:1: timeouts.worker_heartbeat_ttl_seconds: a worker must not become suspect after only a few lost heartbeats, want timeouts.worker_heartbeat_ttl_seconds (20) at least 3 times agent_bus.heartbeat_interval_seconds (15)
c.toml:12:1: timeouts.issue_claim_stale_seconds: a claim would be released while its attempt may still be running, want timeouts.issue_claim_stale_seconds (1) above timeouts.worker_watchdog_seconds (3600)
c.toml:15:1: containers.runtime: got "podman", want one of "docker", "kubernetes", "process"
c.toml:16:1: containers.scale_to_zero_idle_seconds: not supported yet: containers are never idle: each ends with its attempt and is removed; remove it
c.toml:17:1: containers.user: got "0:0", want numeric "uid:gid", neither of them 0 (root)
c.toml:18:1: containers.memory: got "lots", want a size such as "2GiB", from 16MiB to 16TiB
c.toml:19:20: containers.mounts: element 2: "/var/run/docker.sock:/s": workers must not have access to the container engine's socket, want "/host/path:/path[:ro|:rw]" or "volume:name:/path[:ro|:rw]"
c.toml:19:47: containers.mounts: element 3: "/z": bad form, want "/host/path:/path[:ro|:rw]" or "volume:name:/path[:ro|:rw]"
c.toml:22:1: agent_bus.prefix: got "a.>", want words of letters, digits, _ and -, separated by dots
c.toml:23:1: agent_bus.listen_port: got 70000, want an integer from 0 to 65535
c.toml:26:33: github.repositories: element 2: got "nonsense", want "owner/name", without .git
c.toml:27:1: github.api_url: got "ftp://x", want an http(s) URL without credentials, query or fragment
c.toml:28:1: github.token: unknown key, and secrets do not belong here: use github.token_env or github.token_file
c.toml:29:12: github.labels.task: label "A" is used more than once, want four different labels (GitHub ignores case)
c.toml:30:1: github.token_env: looks like a secret; put it in an environment variable or a separate file: github.token_env, github.token_file, containers.env_passthrough
c.toml:33:1: recovery.preset: got "cortx", want one of "director", "reviewcat", "gdd", "cortex", "prp", "dispatch"
c.toml:34:1: recovery.paid_call_budget: got -2, want an integer from -1 to 1000000
c.toml:38:1: stage[0].agent: no agent "claude", want one of claude-code, cline, codex, continue, copilot, crush, gemini, opencode, opencode-go, pi, qwen
c.toml:39:1: stage[0].alternative_model: got "-x", want a model name of at most 200 characters without spaces; may be empty
c.toml:40:1: stage[0].resource: got "github.write", want model.<provider>, using letters, digits, -, _ and dots; may be empty
c.toml:42:28: stage[0].state_paths: element 2: "/x": the glob is not relative to the work tree, want a glob such as ".mine/", optionally prefixed with !
c.toml:42:34: stage[0].state_paths: element 3: "**": the glob matches all paths or none, want a glob such as ".mine/", optionally prefixed with !
environment RETAKE_CFG_DIRECTOR_MAX_WORKER: director_max_worker: unknown variable, did you mean RETAKE_CFG_DIRECTOR_MAX_WORKERS?
environment RETAKE_CFG_RETRY_JITTER: retry.jitter: got "some", want one of "full", "equal", "none"
environment RETAKE_CFG_STAGE_NAME: stage_name: unknown variable: define stages in the configuration file
flag: no.such: unknown key, want one of agent_bus, checkout, containers, director, escalation, github, journal, kubernetes, policy, projects, rate_limits, recovery, retry, route, scope, stage, telemetry, timeouts, worker, workspace
flag: worker.fix_attempts: got "many", want an integer from 1 to 20`
)

// TestAllProblemsAtOnce compares the order, places and texts of all problems with a transcript.
func TestAllProblemsAtOnce(t *testing.T) {
	_, p := load("c.toml", []byte(faulty), []string{
		"RETAKE_CFG_DIRECTOR_MAX_WORKER=3", "RETAKE_CFG_RETRY_JITTER=some",
		"RETAKE_CFG_STAGE_NAME=x",
	}, map[string]string{"worker.fix_attempts": "many", "no.such": "x"})
	if got := p.String(); got != faults {
		t.Errorf("got\n%s", got)
		gotLines, wantLines := strings.Split(got, "\n"), strings.Split(faults, "\n")
		for i := range min(len(gotLines), len(wantLines)) {
			if gotLines[i] != wantLines[i] {
				t.Fatalf("first difference:\n%s\nwant\n%s", gotLines[i], wantLines[i])
			}
		}
	}
	if p.Err() == nil || Problems(nil).Err() != nil {
		t.Error("Err")
	}
}

// codeStage is the stage that every configuration with stages needs.
const codeStage = "[[stage]]\nname = \"CODE\"\nrun = [\"x\"]\n"

// singleProblems maps configurations to their only problem.
var singleProblems = map[string]string{
	"director = 1": "c.toml:1:1: director: got 1, want a " +
		"table: [director]",
	"[Director]\nmax_workers = 1": "did you mean director?",
	"max_workers = 1":             "did you mean director.max_workers?",
	"[github]\nmax_workers = 1":   "did you mean director.max_workers?",
	"[retry]\nqqqqqqqqqqqqqqqqqqqqqq = 1": "want one of retry.backoff_mode, " +
		"retry.backoff_initial_seconds",
	"\"director.max_workers\" = 1": "unknown key",
	"director.max_workers = 1.5": "got 1.5, want an integer " +
		"from 1 to 100",
	"director.max_workers = true":       "got true, want an integer",
	"director.max_workers = [1]":        "got a list, want an integer",
	"director.max_workers = 2026-01-01": "got a date, want an integer",
	"director.interval_seconds = nan":   "want a number of seconds",
	"director.interval_seconds = inf":   "want a number of seconds",
	"director.interval_seconds = 1e300": "want a number of seconds",
	"director.data_dir = \"\"":          `got "", want a non-empty path`,
	"director.data_dir = \"a\\u0000b\"": "NUL",
	"retry.backoff_initial_seconds = 31": "c.toml:1:7: retry.backoff_initial_seconds: the longest delay would " +
		"be shorter than the first, want retry.backoff_max_seconds (30) at least " +
		"retry.backoff_initial_seconds (31)",
	"timeouts.worker_start_seconds = 3600": "c.toml:1:10: timeouts.worker_start_seconds: the watchdog would stop a " +
		"worker that may still be starting",
	"timeouts.worker_watchdog_seconds = 80": "before the director notices that it is silent, want " +
		"timeouts.worker_watchdog_seconds (80) above",
	"agent_bus.heartbeat_interval_seconds = 31": "agent_bus.heartbeat_interval_seconds: a worker must not become " +
		"suspect",
	"agent_bus.replicas = 3":                 "the embedded bus has only one server",
	"agent_bus.replicas = 2":                 "want 1, 3 or 5",
	"agent_bus.url = \"tls://x\"":            "agent_bus.credentials to the director/ directory that it creates",
	"agent_bus.url = \"http://x\"":           "want nats:// or tls:// URLs",
	"agent_bus.url = \"nats://u:hunter2@x\"": "looks like a secret",
	"agent_bus.url = \"nats://hunter2@x\"":   "looks like a secret",
	"agent_bus.listen_addr = \"localhost\"":  `want "auto" or an IP address`,
	"containers.workdir = \"workspace\"":     "absolute",
	"containers.workdir = \"/\"":             "outside system directories",
	"containers.workdir = \"/retake/x\"": "outside system directories " +
		"and /retake",
	"containers.workdir = \"/proc/x\"": "outside system directories",
	"containers.pids = 15":             "from 16",
	"containers.cpus = 0":              "from 0.01",
	"containers.oci_runtime = \"-x\"":  "want a name of letters",
	"containers.oci_runtime = \"runsc\"\ncontainers.runtime = \"process\"": "plain processes do not use " +
		"a container engine",
	"containers.user = \"root\"":          "numeric",
	"containers.user = \"99999999999:1\"": "numeric",
	"containers.user = \"1000:0\"":        "neither of them 0 (root)",
	"containers.memory = \"1MiB\"":        "from 16MiB",
	"containers.memory = 2":               "such as \"2GiB\"",
	"containers.network = \"host\"":       "except Docker's host",
	"containers.image = \"-v\"":           "image reference",
	"containers.env = [\"A=1\"]":          "want a table { NAME",
	"containers.env = { \"A " +
		"B\" = \"x\" }": `got "A B", want the name of an environment variable`,
	"containers.env = { A = 1 }":                                           "got 1, want a string in quotes",
	"containers.env = { RETAKE_X = \"1\" }":                                "not beginning with RETAKE_",
	"containers.env = { MY_API_KEY = \"hunter\" }":                         "want secrets in env_passthrough",
	"containers.env = { A = \"sk-ant-0123456789abcdef\" }":                 "looks like a secret",
	"containers.env_passthrough = [\"GITHUB_TOKEN\"]":                      "must not reach workers",
	"containers.env_passthrough = [\"A\"]\ncontainers.env = { A = \"1\" }": "is in both env and env_passthrough",
	"github.repositories = [\"a/b\", \"A/B\"]":                             "is listed twice",
	"github.repositories = [\"a/b.git\"]":                                  "without .git",
	"github.repositories = [\"a/..\"]":                                     `got "a/.."`,
	"github.repositories = \"a/b\"":                                        `want a list; each item is "owner/name"`,
	"github.repositories = [1]":                                            "element 1: got 1",
	"github.labels = \"x\"":                                                "want a table: [github.labels]",
	"github.labels.task = \"\"":                                            "1 to 50 characters",
	"github.labels.task = \"a,b\"":                                         "without commas",
	"github.labels.tsk = \"x\"":                                            "did you mean github.labels.task?",
	"github.base_branch = \"a..b\"":                                        "a branch name",
	"github.api_url = \"https://hunter2@x/\"":                              "looks like a secret",
	"github.token_env = \"hunter2 hunter2\"": "got the value, want the name of an " +
		"environment variable",
	"github.token_env = \"a8f5f167f44f4964e6c998dee827110c\"": "got the value, want the name of an " +
		"environment variable",
	"github.token_env = \"X\"\ngithub.token_file = \"/x\"": "want only one of them",
	"github.app_id = 1":                           "a GitHub App needs app_id, installation_id and private_key_file",
	"[policy.sync_main]\nmax_commits_behind = -1": "from 0 to 1000000",
	"[policy.sync_main]\n" +
		"max_seconds_behnid = 1": "did you mean policy.sync_main.max_seconds_behind?",
	"github.trusted_authors = " +
		"[\"OWNER\", \"member\"]": `element 2: got "member", want one of "OWNER", "MEMBER"`,
	"timeouts.worker_watchdog_seconds = 21600": "(21600) above timeouts.worker_watchdog_seconds (21600)",
	codeStage + "caller = \"update-check\"": "c.toml:4:1: stage[0].caller: policy director has no row for caller " +
		"\"update-check\", want one of review, deliver",
	"recovery.preset = \"cortex\"\n" + codeStage + "caller = \"x\"": "all rows of policy cortex apply to every " +
		"caller, remove the key or add rows with caller = \"x\" to recovery.policy_file",
	"recovery.preset = \"prp\"\n" + codeStage + "caller = \"mcp\"\n[[stage]]\nname = \"VALIDATE\"\nrun = [\"x\"]\n" +
		"caller = \"cleanup\"\n[[stage]]\nname = \"VALIDATE\"\nrun = [\"y\"]\n": "c.toml:9:1: stage[1].caller: the " +
		"stages VALIDATE have different callers, want the same caller, because a failure names only VALIDATE",
	"[policy.sync_man]\nmax_commits_behind = 1":        "unknown key",
	"[rate_limits.model]\nmax_concurrent_requests = 0": "from 1 to 1000",
	"[stage]\nname = \"CODE\"": "c.toml:1:2: stage: got a table, " +
		"want [[stage]]",
	"stage = [1]":                                                        "stage[0]: got 1, want a table",
	"[[stage]]\nname = \"CODE\"":                                         "stage[0].run: missing program, want run =",
	"[[stage]]\nrun = [\"x\"]":                                           "stage[0].name: missing",
	"[[stage]]\nname = \"CODE\"\nrun = \"make test\"":                    "no shell",
	"[[stage]]\nname = \"CODE\"\nrun = []":                               "missing program",
	"[[stage]]\nname = \"CODE\"\nrun = [\"\"]":                           "missing program",
	"[[stage]]\nname = \"CODE\"\nrun = [\"x\"]\nagent = \"claude-code\"": "c.toml:3:1: stage[0].run: both run",
	"[[stage]]\nname = \"CODE\"\nagent = \"codx\"": "c.toml:3:1: stage[0].agent: no " +
		"agent \"codx\", did you mean codex?",
	"[[stage]]\nname = \"CODE\"\nagent = \"A B\"": "stage[0].agent: got \"A B\", " +
		"want the name of",
	codeStage +
		"model = \"m\"\nalternative_model = \"m\"": "c.toml:5:1: stage[0].alternative_model: the same as model",
	"recovery.agents_file = \"/no/such\"": "c.toml:1:10: recovery.agents_file: " +
		"\"/no/such\": no such file",
	"recovery.rules_file = \"/\"": "c.toml:1:10: recovery.rules_file: " +
		"\"/\": is a directory",
	"recovery.max_consecutive_errors = -2":               "from -1 to 100000",
	"recovery.cost_budget_usd = -0.5":                    "from 0 to 1000000",
	"recovery.continue_on_error = 1":                     "got 1, want true or false",
	"[[stage]]\nname = \"CODE\"\nrun = [\"x\"]\nrum = 1": "did you mean stage.run?",
	"[[stage]]\nname = \"COMMIT\"\n" +
		"run = [\"x\"]": `want one of "START", "CONTEXT_LOAD", "CODE", "VALIDATE", "DONE"`,
	"[[stage]]\nname = \"VALIDATE\"\nrun = [\"x\"]": "stage: CODE is missing",
	codeStage + "[[stage]]\nname = \"CODE\"\nrun = [\"x\"]": "c.toml:5:1: stage[1].name: " +
		"a second CODE",
	codeStage + "[[stage]]\nname = \"START\"\nrun = [\"x\"]": "START after CODE",
	codeStage +
		"timeout_seconds = 3601": "c.toml:4:1: stage[0].timeout_seconds: 3601 is longer than",
	"timeouts.worker_watchdog_seconds = 1000\n" +
		codeStage: "c.toml:2:3: stage[0].timeout_seconds: 1800 is longer than",
	"worker.validate = \"outside\"": `want one of "inside", "fresh"`,
	"worker.validate = \"fresh\"\ncontainers.runtime = \"process\"": "c.toml:1:8: worker.validate: plain " +
		"processes have no clean container to validate in",
	"worker.validate = \"fresh\"\n" + codeStage: "c.toml:1:8: worker.validate: no " +
		"VALIDATE stage, so nothing would be validated",
	"worker.validate = \"fresh\"\n" + codeStage + "[[stage]]\nname = \"VALIDATE\"\n" +
		"agent = \"codex\"": "VALIDATE calls a model, but a clean container has no keys",
	"worker.validate = \"fresh\"\n" + codeStage + "[[stage]]\nname = \"VALIDATE\"\nrun = [\"x\"]\nresource " +
		"= \"model.x\"": "VALIDATE calls a model",
	"a = ghp_0123456789abcdefghij": "c.toml:1:5: not TOML",
	"ghp_0123456789abcdefghij = 1": "unknown key",
}

func TestSingleProblems(t *testing.T) {
	for doc, want := range singleProblems {
		_, got := text(t, doc)
		if !strings.Contains(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%s\ngot  %s\nwant %s", doc, got, want)
		}
		for _, secret := range []string{"hunter2", "ghp_0123456789abcdefghij", "sk-ant", "a8f5f167"} {
			if strings.Contains(got, secret) {
				t.Errorf("the secret is shown: %s", got)
			}
		}
	}
}

func TestGoodOnes(t *testing.T) {
	for _, doc := range []string{
		"",
		"agent_bus.url = \"tls://a:4222,tls://b:4222\"\nagent_bus.credentials = \"keys/director\"\n" +
			"agent_bus.replicas = 3",
		"[[stage]]\nname = \"START\"\nrun = [\"a\"]\n[[stage]]\nname = \"CODE\"\nrun = [\"a\"]\n[[stage]]\nname = " +
			"\"VALIDATE\"\nrun = [\"a\"]\n[[stage]]\nname = \"VALIDATE\"\nrun = [\"b\"]",
		"stage = [{ name = \"CODE\", run = [\"a\"] }]",
		"containers.env = { MAX_TOKENS = \"4096\" }",
		"containers.env_passthrough = [\"ANTHROPIC_API_KEY\"]",
		"containers.image = \"ghcr.io/acme/img@sha256:0123456789abcdef0123456789abcdef\"",
		"containers.workdir = \"/usr/src/app\"",
		"github.token_file = \"/run/secrets/token\"",
		"[recovery]\npreset = \"cortex\"\ncontinue_on_error = true\niteration_budget = 0\npaid_call_budget = -1\n" +
			"cost_budget_usd = 2.5",
		"[[stage]]\nname = \"CODE\"\nagent = \"claude-code\"\nmodel = \"m\"\nalternative_model = " +
			"\"anthropic/m[1m]\"\nresource = \"model.x\"",
		"[director]\nmax_retries = 0",
	} {
		if _, got := text(t, doc); got != "" {
			t.Errorf("%s\n%s", doc, got)
		}
	}
}

var problemForm = regexp.MustCompile(`^(c\.toml:[1-9][0-9]*:[1-9][0-9]*|c\.toml|environment RETAKE_CFG_.*|flag): .`)

func FuzzLoad(f *testing.F) {
	dev, err := os.ReadFile(devFile)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(dev, "RETAKE_CFG_CONTAINERS_ENV={A='1'}", "director.max_workers", "3")
	f.Add([]byte("[[stage]]\n[stage.run]\nx=1"), "RETAKE_CFG_CONTAINERS_MOUNTS=[[[", "stage.run", "[]")
	f.Add([]byte("stage = [{},1]\n[a.'b c']\n\"\" = {x=[{y=1}]}"), "RETAKE_CFG_", "", "")
	f.Add([]byte("[[director]]\nfleet=1\n[[github.labels]]"), "RETAKE_CFG_CONTAINERS_MEMORY=1e99GiB",
		"containers.memory", "-1")
	f.Fuzz(func(t *testing.T, data []byte, env, key, value string) {
		c, p := load("c.toml", data, []string{env}, map[string]string{key: value})
		for _, one := range p {
			if s := one.String(); strings.ContainsAny(s, "\n\r") ||
				!problemForm.MatchString(strings.ToValidUTF8(s, "?")) {
				t.Errorf("%q", s)
			}
		}
		_ = c.CheckRun(os.LookupEnv)
		if len(p) > 0 {
			return
		}
		if _, again := load("c.toml", []byte(c.String()), nil, nil); len(again) > 0 &&
			!strings.Contains(c.String(), "***") {
			t.Errorf("shown, it does not load again:\n%s\n%v", c, again)
		}
	})
}

// TestScope checks globs and labels in each key that accepts them.
func TestScope(t *testing.T) {
	c, problems := text(t, "[scope]\ndeny = [\"ci/\", \"!ci/docs/\"]\nallow_secrets = []\n[scope.allow]\n\"ci ok\" "+
		"= [\"ci/\"]\n")
	if problems != "" || !reflect.DeepEqual(c.Scope.Allow, map[string][]string{"ci ok": {"ci/"}}) ||
		len(c.Scope.Deny) != 2 {
		t.Errorf("%s, %+v", problems, c.Scope)
	}
	if again, problems := text(t, c.String()); problems != "" || !reflect.DeepEqual(again.Scope, c.Scope) {
		t.Errorf("%s, %+v", problems, again.Scope)
	}
	c, p := load("c.toml", nil, []string{`RETAKE_CFG_SCOPE_ALLOW={ "ci-ok" = ["ci/"] }`},
		map[string]string{"scope.deny": "ci/,x.yml"})
	if len(p) > 0 || len(c.Scope.Allow["ci-ok"]) != 1 || len(c.Scope.Deny) != 2 {
		t.Errorf("%v, %+v", p, c.Scope)
	}
	for doc, want := range map[string]string{
		`scope.deny = ["/etc"]`:           `scope.deny: element 1: "/etc": the glob is not relative to the work tree`,
		`scope.deny = ["a", "**"]`:        `element 2: "**": the glob matches all paths or none`,
		`scope.allow = { "x" = ["[a"] }`:  `scope.allow: "x": element 1: "[a": the glob has an open bracket`,
		`scope.allow = { "x" = "a" }`:     `scope.allow: "x": got a string, want a list of globs`,
		`scope.allow = { "a,b" = ["a"] }`: `want 1 to 50 characters without commas`,
		`scope.allow = ["a"]`:             `want a table { "label" = ["glob"] }`,
		`scope.allow_secrets = ["../x"]`:  `the glob contains . or .. or a double slash`,
		`scope.max_file_bytes = 0`:        `want an integer from 1 to 104857600`,
		`scope.max_file_byte = 1`:         `max_file_bytes`,
	} {
		if _, problems := text(t, doc); !strings.Contains(problems, want) {
			t.Errorf("%s\ngot  %s\nwant %s", doc, problems, want)
		}
	}
}
