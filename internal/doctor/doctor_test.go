package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"retake/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func examine(t *testing.T, p *played, needs ...Needs) Report {
	t.Helper()
	r, err := Examine(t.Context(), p.world(), needs...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNothingIsInTheWay(t *testing.T) {
	p := newPlayed(t)
	r := examine(t, p)
	for _, f := range r.Findings {
		if f.Level != OK {
			t.Errorf("%s: %s: %s", f.Check, f.Level, f)
		}
	}
	for _, row := range Rows() {
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Check == row.Name }) {
			t.Errorf("%s says nothing", row.Name)
		}
	}
	if want := (Trial{Addresses: []string{":8731"}, Listen: true, Programs: []string{"claude", "go"}}); !slices.Equal(
		p.asked.Addresses, want.Addresses) ||
		!p.asked.Listen || !slices.Equal(p.asked.Programs, want.Programs) {
		t.Errorf("tried %+v, want %+v", p.asked, want)
	}
	if p.closed != 1 || r.Summary() != "no problems found" {
		t.Errorf("closed %d times; %s", p.closed, r.Summary())
	}
}

// findings breaks one part of the world in each case, and names the row and the line that report it.
var findings = map[string]struct {
	breaks func(*played)
	check  string
	level  Level
	says   string
}{
	"no token": {
		func(p *played) { delete(p.env, "GITHUB_TOKEN") }, "credential", Problem,
		"GITHUB_TOKEN is empty or not set",
	},
	"nothing asked": {
		func(p *played) { delete(p.env, "GITHUB_TOKEN") }, "github", NotTried,
		"see the credential check",
	},
	"no variable": {
		func(p *played) { delete(p.env, "ANTHROPIC_API_KEY") }, "variables", Problem,
		"ANTHROPIC_API_KEY is not set",
	},
	"no login": {
		func(p *played) { p.config.Containers.EnvPassthrough = nil }, "variables", Warning,
		"claude-code does not receive any of ANTHROPIC_API_KEY",
	},
	"no repositories": {
		func(p *played) { p.config.GitHub.Repositories = nil }, "work", Problem,
		"github.repositories: empty",
	},
	"data_dir": {
		func(p *played) { p.config.Director.DataDir = "/dev/null/data" }, "data_dir", Problem,
		"want a directory that the director's user can",
	},
	"no git": {func(p *played) { p.missing = []string{"git"} }, "programs", Problem, "install git"},
	"no worker": {
		func(p *played) { p.worker = errors.New("no worker binary at /x") }, "programs", Problem,
		"no worker binary",
	},
	"plain programs": {func(p *played) {
		p.missing, p.config.Containers.Runtime, p.plain = []string{"claude"},
			"process", true
	}, "programs", Problem, "claude is not installed"},
	"full disk":   {func(p *played) { p.disk.Full = true }, "disk", Problem, "above director.disk_watermark"},
	"scarce disk": {func(p *played) { p.disk.FreeBytes = 1 << 30 }, "disk", Warning, "1GiB free"},
	"no quota": {
		func(p *played) { p.config.Checkout.Quota = "" }, "quota", Warning,
		"up to director.disk_watermark (95%)",
	},
	"a worker's home": {func(*played) {}, "quota", OK, "which is a volume"},
	"quota not here": {
		func(p *played) { p.quota = errors.New("the director does not run as root") }, "quota",
		Problem, "does not run as root",
	},
	"few files": {
		func(p *played) { p.disk.FreeFiles, p.disk.UsedFiles = 9, 9 }, "disk", Warning,
		"space for only 9 more files",
	},
	"runs": {
		func(p *played) { p.says = "healthy: run_1" }, "director", OK,
		"a director with this data_dir is already running: healthy: run_1",
	},
	"runs: journal": {func(p *played) { p.says = "healthy: run_1" }, "journal", NotTried, "a director is running"},
	"runs: ports": {
		func(p *played) { p.says = "healthy: run_1" }, "ports", OK,
		"used by the running director",
	},
	"unwell": {
		func(p *played) { p.unwell = errors.New("cannot reach the bus") }, "director", Problem,
		"cannot reach the bus; to do: check its log",
	},
	"other fleet": {
		func(p *played) { p.fleet = errors.New("tasks of fleet x") }, "director", Problem,
		"tasks of fleet x",
	},
	"journal": {
		func(p *played) { p.journal = errors.New("damaged at 7") }, "journal", Problem,
		"damaged at 7; to do: director journal verify",
	},
	"GitHub away": {
		func(p *played) { p.githubFails = errors.New("no answer") }, "github", Problem,
		"no answer; to do: check the credential",
	},
	"GitHub away: all": {
		func(p *played) { p.githubFails = errors.New("no answer") }, "labels", NotTried,
		"see the github check",
	},
	"own token": {
		func(p *played) { p.account.Person = true }, "github", OK,
		"belongs to a person. Comments by this account count as answers",
	},
	"no writes": {
		func(p *played) { p.config.GitHub.Writes = false }, "github", Warning,
		"set github.writes = true",
	},
	"clock": {
		func(p *played) { p.account.Date = p.now.Add(-time.Minute) }, "clock", Warning,
		"1m0s off GitHub's clock",
	},
	// the finding refers to the GitHub check, because the App's key is missing
	"clock of an App": {
		func(p *played) { p.account.Date, p.config.GitHub.AppID = p.now.Add(time.Minute), 1 },
		"clock", NotTried, "see the github check",
	},
	"scopes": {
		func(p *played) { p.account.Told, p.account.Scopes = true, []string{"gist"} }, "rights",
		Problem, "scopes are gist, which do not include repo",
	},
	"scopes: none": {func(p *played) { p.account.Told = true }, "rights", Problem, "scopes are none"},
	"App's rights": {func(p *played) {
		p.account.Rights = map[string]string{
			"metadata": "read",
			"issues":   "read",
		}
	}, "rights", Problem, "is missing issues: write, contents: write, pull_requests: write"},
	"ends": {
		func(p *played) { p.account.Expires = p.now.Add(time.Hour) }, "rights", Warning,
		"the token expires at 2026-11-23 13:00:00 UTC",
	},
	"no repository": {
		func(p *played) { p.repoFails = errors.New("404") }, "repositories", Problem,
		"acme/widgets: 404",
	},
	"no repo: labels": {
		func(p *played) { p.repoFails = errors.New("404") }, "labels", NotTried,
		"no repository is readable",
	},
	"archived": {func(p *played) { p.repository.Archived = true }, "repositories", Problem, "is archived"},
	"no issues": {
		func(p *played) { p.repository.HasIssues = false }, "repositories", Problem,
		"has no issues",
	},
	"no push": {
		func(p *played) { p.repository.Push = false }, "repositories", Problem,
		"does not accept pushes from retake-bot",
	},
	"may not read": {
		func(p *played) { p.lacksRights = []string{"checks"} }, "repositories", Problem,
		"lacks permission to read checks",
	},
	"branch": {
		func(p *played) { p.noBranch = errors.New("acme/widgets has no branch master") },
		"base branch", Problem, "no branch master",
	},
	"labels": {
		func(p *played) { p.lacksLabels = []string{"agent-task"} }, "labels", OK,
		"the first start creates",
	},
	"labels unwritten": {
		func(p *played) { p.lacksLabels, p.config.GitHub.Writes = []string{"agent-task"}, false },
		"labels", Warning, "lacks agent-task",
	},
	"no engine": {
		func(p *played) { p.engineFails = errors.New("start Docker") }, "engine", Problem,
		"start Docker",
	},
	"no engine: image": {
		func(p *played) { p.engineFails = errors.New("start Docker") }, "image", NotTried,
		"see the engine check",
	},
	"plain": {func(p *played) { p.plain = true }, "engine", Warning, "without isolation or limits"},
	"no namespaces": {
		func(p *played) { p.lacks = []string{"no user namespaces"} }, "isolation", Warning,
		"no user namespaces",
	},
	"changeable image": {
		func(p *played) { p.config.Containers.ReadOnly = false }, "isolation", Warning,
		"containers.read_only = false",
	},
	"open data_dir": {
		func(p *played) { p.config.Director.DataDir = os.TempDir() }, "data_dir", Warning,
		"chmod o-rw",
	},
	"open file in data_dir": {
		func(p *played) {
			dir := p.config.Director.DataDir
			file := filepath.Join(dir, "director.sock")
			_ = errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, 0o711), os.WriteFile(file, nil, 0o600),
				os.Chmod(file, 0o777))
		}, "data_dir", Warning, "access to director.sock (mode 0777)",
	},
	"no limits": {
		func(p *played) { p.cannot = []string{"no memory limit"} }, "engine", Warning,
		": no memory limit",
	},
	"no image": {
		func(p *played) { p.has, p.notPullable = false, errors.New("manifest unknown") }, "image",
		Problem, "registry does not provide it: manifest unknown",
	},
	"no registry": {
		func(p *played) { p.has, p.notAnswered, p.notPullable = false, true, errors.New("no such host") }, "image",
		Problem, "registry does not respond: no such host",
	},
	"pulled":        {func(p *played) { p.has = false }, "image", OK, "the first start pulls it"},
	"pulled: trial": {func(p *played) { p.has = false }, "container", NotTried, "this check does not pull images"},
	"cluster": {
		func(p *played) { p.cluster = true }, "cluster", OK,
		"the API accepts a dry run of an attempt's pod",
	},
	"cluster: rights": {
		func(p *played) { p.cluster, p.missingVerbs = true, []string{"watch pods"} }, "cluster",
		Problem, "lacks permission to watch pods; to do: grant it",
	},
	"cluster: no class": {func(p *played) {
		p.cluster, p.notAdmitted = true, errors.New(`RuntimeClass "nope" not found`)
	}, "cluster", Problem, `RuntimeClass "nope" not found`},
	"cluster: away": {
		func(p *played) { p.cluster, p.noAnswer = true, errors.New("connection refused") },
		"cluster", Problem, "connection refused",
	},
	"cluster: image": {func(p *played) { p.cluster, p.has = true, false }, "image", OK, "are pulled by the nodes"},
	"cluster: network": {
		func(p *played) { p.cluster = true }, "network", OK,
		"pods reach this director at 172.30.0.1",
	},
	"cluster: egress": {func(p *played) { p.cluster = true }, "egress", Warning, "NetworkPolicies"},
	"cluster: no bus": {func(p *played) {
		p.cluster, p.reached = true, map[string]string{":8731": "i/o timeout"}
	}, "container", Problem, "i/o timeout; to do: check kubernetes.address"},
	"no network": {func(p *played) { p.gateway = "" }, "network", OK, "the first start creates it"},
	"bad network": {
		func(p *played) { p.badNetwork = errors.New(`driver "macvlan"`) }, "network", Problem,
		"macvlan",
	},
	"egress": {
		func(p *played) { p.notConfined = errors.New("no nf_tables") }, "egress", Warning,
		"services of this machine and private networks: no nf_tables",
	},
	"egress: a list": {func(p *played) {
		p.notConfined, p.config.Containers.Egress = errors.New("no nf_tables"), []string{"api.anthropic.com"}
	}, "egress", Problem, "cannot enforce containers.egress: no nf_tables"},
	"egress: image": {func(p *played) { p.has = false }, "egress", NotTried, "this check does not pull images"},
	"proxy's port": {func(p *played) {
		p.config.Containers.Egress, p.taken = []string{"api.anthropic.com"},
			map[string]bool{"172.30.0.1:8732": true}
	}, "ports", Problem, "containers.proxy_listen: cannot listen on 172.30.0.1:8732"},
	"firewall": {
		func(p *played) { p.reached = map[string]string{":8731": "i/o timeout"} }, "container", Problem,
		"cannot reach the bus at this machine, port 8731: i/o timeout; to do: allow traffic from",
	},
	"no program": {
		func(p *played) { p.missingThere = []string{"claude"} }, "container", Problem,
		"does not contain the program claude",
	},
	"on a volume": {func(p *played) {
		p.missingThere, p.config.Containers.Mounts = []string{"claude"}, []string{"volume:v:/v"}
	}, "container", Warning, "unless a volume contains it"},
	"no container": {
		func(p *played) { p.trialFails = errors.New("exec format error") }, "container", Problem,
		"exec format error",
	},
	"port": {
		func(p *played) { p.taken = map[string]bool{"172.30.0.1:8731": true} }, "ports", Problem,
		"cannot listen on 172.30.0.1:8731",
	},
	"http": {func(p *played) {
		p.config.Director.HTTPListen, p.taken = ":1",
			map[string]bool{":1": true}
	}, "ports", Problem, "director.http_listen"},
	"joined": {
		func(p *played) { p.config.AgentBus.URL = "tls://nats" }, "container", OK,
		"reaches the bus at nats:4222",
	},
	"any port": {
		func(p *played) { p.config.AgentBus.ListenPort = 0 }, "container", NotTried,
		"agent_bus.listen_port is 0",
	},
	"faulty file": {func(p *played) {
		p.problems = config.Problems{{
			Where: "c.toml:1:1",
			Text:  "unknown key",
		}}
	}, "configuration", Problem, "c.toml:1:1: unknown key"},
	"faulty: the rest": {func(p *played) {
		p.problems = config.Problems{{
			Where: "c.toml:1:1",
			Text:  "unknown key",
		}}
	}, "the rest", NotTried, "fix the configuration first"},
}

// TestWhatIsFound breaks one part in each case, and expects one line from the row that checks it.
func TestWhatIsFound(t *testing.T) {
	for name, c := range findings {
		t.Run(name, func(t *testing.T) {
			p := newPlayed(t)
			c.breaks(p)
			r := examine(t, p)
			if !slices.ContainsFunc(r.Findings, func(f Finding) bool {
				return f.Check == c.check && f.Level == c.level && strings.Contains(f.String(), c.says)
			}) {
				t.Errorf("want %s of %s saying %q in %v", c.level, c.check, c.says, r.Findings)
			}
			if r.OK == (len(r.At(Problem)) > 0) {
				t.Errorf("OK is %v with %d problems", r.OK, len(r.At(Problem)))
			}
		})
	}
}

func TestOnlyWhatIsNeeded(t *testing.T) {
	p := newPlayed(t)
	p.config.Director.HTTPListen = ""
	w := p.world()
	w.GitHub, w.Engine, w.Machine = nil, nil, nil // the checks must not use them
	r, err := Examine(t.Context(), w, Offline)
	if err != nil || !r.OK || len(r.Findings) == 0 {
		t.Errorf("%v %+v", err, r)
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.HasPrefix(string(text),
		`{"ok":true,"findings":[{"check":"configuration","level":"ok","text":"c.toml (-c)"}`) {
		t.Errorf("%v %s", err, text)
	}
}

func TestAnEndIsNoReport(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	if _, err := Examine(ctx, newPlayed(t).world()); err == nil || err.Error() != "interrupted" {
		t.Errorf("%v", err)
	}
}
