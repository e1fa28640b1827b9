package director

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"retake/internal/audit"
	"retake/internal/bus"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/github"
	"retake/internal/recovery"
	"retake/internal/workspace"

	"go.uber.org/zap"
)

// Options of Run.
type Options struct {
	Config       config.Config
	Token        func(context.Context) (string, error) // GitHub's; asked before every request
	WorkerBinary string                                // empty: the file "worker" beside this program
	Log          *zap.Logger

	// For tests; zero: what the configuration says, the network, and driftEvery.
	Runtime    container.Runtime
	Transport  http.RoundTripper
	DriftEvery time.Duration
}

// daemon is what outlives a session: the adapters.
type daemon struct {
	config       config.Config
	log          *zap.Logger
	runID        string
	writer       string // names this process in the journal
	since        time.Time
	workerBinary string
	driftEvery   time.Duration
	gateway      string   // address at which containers reach the bus
	environ      []string // of every container
	secrets      []string // values in environ that workers mask

	classifier *recovery.Classifier
	policy     *recovery.Policy // without the configuration's limits
	stages     []wire.StagePlan // of every attempt
	runtime    container.Runtime
	bus        *bus.Bus
	github     *github.Client
	workspace  *workspace.Workspaces
	audit      *audit.Writer
	cooldowns  chan github.Cooldown // from the gate, which must not wait
	looked     sync.Map             // repositories that answered and have our labels
	lock       *os.File
	aborted    string // why the policy has stopped the run; the owner's while a session lives
}

// ErrTasksFailed: the run has ended as asked, but its policy had aborted it (nothing new was begun), or errors were to be
// continued after (recovery.continue_on_error) and tasks failed. ERROR_REPORT.md in the data directory tells of them.
var ErrTasksFailed = errors.New("director: tasks of this run failed: see director report")

// Run is the director. It returns nil when ctx ended, and an error when it cannot start, or when another director writes
// its journal. Running workers are left alone: the next run adopts them.
func Run(ctx context.Context, o Options) error {
	d, err := open(ctx, o)
	if err != nil {
		return err
	}
	err = d.work(ctx)
	d.close()
	failed := d.report()
	if err == nil && (d.aborted != "" || failed && d.config.Recovery.ContinueOnError) {
		return ErrTasksFailed
	}
	return err
}

// work is one session after the other.
func (d *daemon) work(ctx context.Context) error {
	for works := false; ; {
		s := d.newSession()
		err := s.run(ctx)
		works = works || s.works
		if errors.Is(err, ErrAnotherDirector) && d.wroteLast(ctx, s.owner.driver.Last()+1) {
			err = errReload // our own append of an earlier session, late
		}
		if err == nil || ctx.Err() != nil || !works || errors.Is(err, ErrAnotherDirector) {
			return err
		}
		d.log.Error("session ended; the journal is read again", zap.Error(err), zap.Duration("in", reloadAfter))
		select {
		case <-time.After(reloadAfter):
		case <-ctx.Done():
			return nil
		}
	}
}

// wroteLast says whether this process itself wrote the journal's batch at a sequence.
func (d *daemon) wroteLast(ctx context.Context, seq uint64) bool {
	id, err := d.bus.Journal().BatchID(ctx, seq)
	return err == nil && strings.HasPrefix(id, d.writer+"-")
}

// reloadAfter is the pause before a session that ended badly is followed by another.
const reloadAfter = 2 * time.Second

// open makes the adapters. Everything that is missing is told at once.
func open(ctx context.Context, o Options) (_ *daemon, err error) {
	now := time.Now().UTC()
	d := &daemon{
		config: o.Config, log: o.Log, since: now, runID: "run_" + now.Format("20060102-150405Z"), runtime: o.Runtime,
		driftEvery: cmp.Or(o.DriftEvery, driftEvery), writer: "director-" + newNonce(), cooldowns: make(chan github.Cooldown, 64),
	}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.config.Director.DataDir, err = filepath.Abs(d.config.Director.DataDir); err != nil {
		return nil, fmt.Errorf("director: director.data_dir: %w", err)
	}
	if err := d.config.CheckRun().Err(); err != nil {
		return nil, err
	}
	if err := d.lockData(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(d.openContainersAndBus(ctx), d.openLocal(o), d.openGitHub(ctx, o)); err != nil {
		return nil, err
	}
	d.audit = audit.Open(d.config.Director.DataDir, audit.Options{Log: d.log, Redact: d.github.Redact})
	return d, nil
}

// A program that is just being started holds copies of all our files until it runs: the lock can be taken for a moment
// although the director that had it has ended.
const (
	copiesLast = 2 * time.Second
	lookAgain  = 20 * time.Millisecond
)

// lockData makes sure that one process has the data directory; the kernel lets go of it when that process ends.
func (d *daemon) lockData(ctx context.Context) error {
	dir := d.config.Director.DataDir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("director: director.data_dir: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("director: director.data_dir: %w", err)
	}
	d.lock = f
	take := func() error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	err = take()
	for began := time.Now(); errors.Is(err, syscall.EWOULDBLOCK) && time.Since(began) < copiesLast && ctx.Err() == nil; err = take() {
		time.Sleep(lookAgain)
	}
	if err != nil {
		return fmt.Errorf("director: another director runs on %s: stop it, or give this one a director.data_dir and a director.fleet of its own", dir)
	}
	return nil
}

// installation names this data directory for ever: what another one's director made is not ours to remove.
func (d *daemon) installation() (string, error) {
	path := filepath.Join(d.config.Director.DataDir, "installation")
	name, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		name = []byte(newNonce())
		err = os.WriteFile(path, name, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("director: director.data_dir: %w", err)
	}
	return string(name), nil
}

func (d *daemon) openLocal(o Options) error {
	var errs [5]error
	tables, problems := d.config.Tables()
	d.classifier, d.policy, errs[0] = tables.Classifier, tables.Policy, problems.Err()
	d.stages, errs[4] = stagePlans(d.config)
	d.workerBinary, errs[1] = findWorker(o.WorkerBinary)
	d.environ, d.secrets, errs[2] = passedOn(d.config.Containers.Env, d.config.Containers.EnvPassthrough)
	// Docker mounts a checkout without going through its parents; another user's plain process has to pass them.
	_, plain := d.runtime.(*container.Processes)
	if plain {
		errs[0] = errors.Join(errs[0], os.Chmod(d.config.Director.DataDir, 0o711))
	}
	uid, gid := d.config.Containers.UIDGID()
	d.workspace, errs[3] = workspace.Open(workspace.Options{
		Dir: d.config.Director.DataDir, Owner: &workspace.Owner{UID: uid, GID: gid}, Passable: plain,
		Auth: d.gitAuth(o), Log: d.log,
	})
	return errors.Join(errs[:]...)
}

// gitAuth hands GitHub's token to git; GitHub takes any user name with it.
func (d *daemon) gitAuth(o Options) func(context.Context) (user, token string, err error) {
	return func(ctx context.Context) (string, string, error) {
		token, err := o.Token(ctx)
		return "x-access-token", token, err
	}
}

func (d *daemon) openContainersAndBus(ctx context.Context) error {
	if d.runtime == nil {
		owner, err := d.installation()
		if err != nil {
			return err
		}
		runtime, err := container.Open(ctx, container.Options{
			Owner: owner, Runtime: d.config.Containers.Runtime, Fleet: d.config.Director.Fleet, Network: d.config.Containers.Network,
			Dir: filepath.Join(d.config.Director.DataDir, "processes"), Log: d.log,
		})
		if err != nil {
			return err
		}
		d.runtime = runtime
		if err := runtime.EnsureImage(ctx, d.config.Containers.Image); err != nil {
			return err
		}
	}
	gateway, err := d.runtime.EnsureNetwork(ctx)
	if err != nil {
		return err
	}
	d.gateway = gateway
	b := d.config.AgentBus
	hosts := []string{b.ListenAddr}
	if b.ListenAddr == "auto" {
		hosts = []string{"127.0.0.1", gateway}
	}
	d.bus, err = bus.Open(ctx, bus.Options{
		URL: b.URL, StoreDir: filepath.Join(d.config.Director.DataDir, "bus"), ListenHosts: slices.Compact(hosts), Port: b.ListenPort,
		Prefix: b.Prefix, Fleet: d.config.Director.Fleet, Replicas: b.Replicas, MaxMessageBytes: b.MaxMessageBytes,
		SyncAlways: b.Sync == "always", RunID: d.runID, Log: d.log,
	})
	return err
}

func (d *daemon) openGitHub(ctx context.Context, o Options) error {
	c := d.config.GitHub
	token, err := o.Token(ctx)
	if err != nil {
		return err
	}
	d.github, err = github.New(github.Options{
		BaseURL: c.APIURL, Token: o.Token, Fleet: d.config.Director.Fleet, Labels: github.Labels(c.Labels),
		MinBetweenWrites: d.config.RateLimits.GitHub.MinBetweenWrites,
		TrustedAuthors:   c.TrustedAuthors,
		MaxConcurrent:    d.config.RateLimits.GitHub.MaxConcurrentRequests,
		CooldownDefault:  d.config.RateLimits.GitHub.CooldownOnRateLimit,
		Writes:           c.Writes, Secrets: append(slices.Clone(d.secrets), token), Transport: o.Transport,
		OnCooldown: d.coolDown, Log: d.log,
	})
	return err
}

// openRepositories looks at each repository, once in the life of this process. The gate must know by then what the journal
// says of limits: a director that is started again and again must not use GitHub while it asks for a pause.
func (d *daemon) openRepositories(ctx context.Context) error {
	for _, repo := range d.config.GitHub.Repositories {
		if err := d.openRepository(ctx, repo); err != nil {
			return err
		}
	}
	return nil
}

// coolDown passes on what the gate says. The gate has shut already; if the owner is that far behind, the next refusal
// tells it.
func (d *daemon) coolDown(c github.Cooldown) {
	select {
	case d.cooldowns <- c:
	default:
	}
}

// openRepository makes sure, once, that the repository answers and has our labels. A limit is no reason not to start: the
// first poll that is answered looks again.
func (d *daemon) openRepository(ctx context.Context, repo string) error {
	if _, done := d.looked.Load(repo); done {
		return nil
	}
	err := d.github.EnsureLabels(ctx, repo)
	var limit *github.Error
	switch {
	case err == nil:
		d.looked.Store(repo, true)
		return nil
	case errors.Is(err, github.ErrWritesDisabled):
		d.looked.Store(repo, true)
		d.log.Warn("github.writes = false: nothing is claimed, only looked at", zap.String("repo", repo))
		return nil
	case errors.As(err, &limit) && limit.Kind == github.KindRateLimited:
		d.log.Warn("labels not checked: GitHub limits us", zap.String("repo", repo), zap.Time("until", limit.Until))
		return nil
	}
	return fmt.Errorf("director: repository %s cannot be used (check github.api_url, the network and the token's access to it): %w", repo, err)
}

// remote is where git finds a repository: beside the API, or at github.com for the public one.
func (d *daemon) remote(repo string) string {
	u, err := url.Parse(d.config.GitHub.APIURL)
	if err != nil || u.Host == "api.github.com" {
		return "https://github.com/" + repo + ".git"
	}
	return u.Scheme + "://" + u.Host + "/" + repo + ".git"
}

func (d *daemon) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var errs []error
	if d.audit != nil {
		errs = append(errs, d.audit.Close(ctx))
	}
	if d.bus != nil {
		errs = append(errs, d.bus.Close(ctx))
	}
	if d.runtime != nil {
		errs = append(errs, d.runtime.Close())
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
	}
	if err := errors.Join(errs...); err != nil {
		d.log.Warn("not everything was closed well", zap.Error(err))
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
