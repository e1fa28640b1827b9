package doctor

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"retake/internal/config"
)

// played is a world without problems. A test adds one.
type played struct {
	cluster      bool
	missingVerbs []string
	noAnswer     error
	notAdmitted  error

	config       config.Config
	env          map[string]string
	problems     config.Problems
	now          time.Time
	missing      []string // programs that this machine lacks
	worker       error
	disk         Disk
	says         string // description of the running director
	unwell       error
	journal      error
	fleet        error
	quota        error
	taken        map[string]bool // addresses in use
	account      Account
	githubFails  error
	repository   Repository
	repoFails    error
	noBranch     error
	lacksLabels  []string
	lacksRights  []string
	engineFails  error
	plain        bool
	cannot       []string
	lacks        []string // barriers that the engine lacks
	has          bool
	notPullable  error
	notAnswered  bool // by the registry
	gateway      string
	badNetwork   error
	trialFails   error
	notConfined  error
	reached      map[string]string
	missingThere []string

	asked  Trial
	closed int
}

func newPlayed(t *testing.T) *played {
	t.Helper()
	file := []byte("[director]\ndata_dir = \"" + filepath.Join(t.TempDir(), "data") + "\"\n[github]\nrepositories = " +
		"[\"acme/widgets\"]\nwrites = true\n[containers]\nenv_passthrough = [\"ANTHROPIC_API_KEY\"]\n" +
		"[checkout]\nquota = \"10GiB\"\n[[stage]]\nname = \"CODE\"\nagent = \"claude-code\"\n[[stage]]\nname = " +
		"\"VALIDATE\"\nrun = [\"go\", \"test\"]\n[[stage]]\nname = \"VALIDATE\"\nrun = [\"./check.sh\"]\n")
	c, problems := config.Parse("c.toml", file, nil, nil)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	return &played{
		config: c, env: map[string]string{"GITHUB_TOKEN": "t0ken", "ANTHROPIC_API_KEY": "k"}, now: now,
		disk:       Disk{FreeBytes: 100 << 30, UsedPercent: 10},
		account:    Account{Login: "retake-bot", Kind: "token", Date: now, At: now},
		repository: Repository{Push: true, HasIssues: true, DefaultBranch: "main"},
		has:        true, gateway: "172.30.0.1",
	}
}

func (p *played) world() World {
	return World{
		File: "c.toml", How: "-c", Problems: p.problems, Config: p.config, Lookup: func(name string) (string, bool) {
			v,
				ok := p.env[name]
			return v, ok
		},
		Machine: p, GitHub: func(context.Context) (GitHub, error) { return (*playedGitHub)(p), nil },
		Engine: func(context.Context) (Engine, error) {
			if p.cluster {
				return playedCluster{(*playedEngine)(p)}, p.engineFails
			}
			return (*playedEngine)(p), p.engineFails
		},
	}
}

func (p *played) Now() time.Time { return p.now }

func (p *played) Programs(_ string, names []string) (missing []string) {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !slices.Contains(p.missing, n) })
}

func (p *played) Worker() (string, error) { return "/bin/worker", p.worker }

func (p *played) Disk(string) (Disk, error) { return p.disk, nil }

func (p *played) Running(context.Context) (string, error) { return p.says, p.unwell }

func (p *played) Journal(context.Context) (string, error) { return "whole: 7 batches", p.journal }

func (p *played) Fleet() error { return p.fleet }

func (p *played) Quota(int64) error { return p.quota }

func (p *played) Listen(_ context.Context, address string) error {
	if p.taken[address] {
		return errors.New("address already in use")
	}
	return nil
}

type playedGitHub played

func (p *playedGitHub) Account(context.Context) (Account, error) { return p.account, p.githubFails }

func (p *playedGitHub) Repository(context.Context, string) (Repository, error) {
	return p.repository, p.repoFails
}

func (p *playedGitHub) HasBranch(context.Context, string, string) error { return p.noBranch }

func (p *playedGitHub) MissingLabels(context.Context, string) ([]string, error) {
	return p.lacksLabels, nil
}

func (p *playedGitHub) MayRead(context.Context, string, string) ([]string, error) {
	return p.lacksRights, nil
}

type playedEngine played

// playedCluster is a fake cluster with nodes that pull missing images.
type playedCluster struct{ *playedEngine }

func (p playedCluster) Missing(context.Context) ([]string, error) { return p.missingVerbs, p.noAnswer }

func (p playedCluster) Admits(context.Context) error { return p.notAdmitted }

func (p *playedEngine) Name() string { return "Docker" }

func (p *playedEngine) Confines() bool { return !p.plain }

func (p *playedEngine) Isolation(context.Context) (holds, lacks []string, err error) {
	return []string{"rootless"}, p.lacks, nil
}

func (p *playedEngine) Cannot() []string { return p.cannot }

func (p *playedEngine) HasImage(context.Context, string) (bool, error) { return p.has, nil }

func (p *playedEngine) Pullable(context.Context, string) (bool, error) {
	return !p.notAnswered, p.notPullable
}

func (p *playedEngine) Gateway(context.Context) (string, error) { return p.gateway, p.badNetwork }

func (p *playedEngine) Confine(context.Context) error { return p.notConfined }

func (p *playedEngine) Close() error { p.closed++; return nil }

func (p *playedEngine) Try(_ context.Context, t Trial) (Tried, error) {
	p.asked = t
	return Tried{Reached: p.reached, Missing: p.missingThere, Network: "the network retake"}, p.trialFails
}
