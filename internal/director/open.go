package director

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"retake/internal/agent"
	"retake/internal/audit"
	"retake/internal/bus"
	"retake/internal/bus/keys"
	"retake/internal/bus/server"
	"retake/internal/bus/wire"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/github"
	"retake/internal/leak"
	"retake/internal/scope"
	"retake/internal/workspace"
)

// open makes the adapters. Everything that is missing is reported at once.
func open(ctx context.Context, o Options) (_ *daemon, err error) {
	now := time.Now().UTC()
	d := &daemon{
		config: o.Config, log: o.Log, since: now, runID: "run_" + now.Format("20060102-150405Z"), runtime: o.Runtime,
		driftEvery: cmp.Or(o.DriftEvery, driftEvery), diskUse: o.diskUse, writer: "director-" + newNonce(), cooldowns: make(chan github.Cooldown, 64),
		offences: make(chan bus.Offence), closing: make(chan struct{}),
	}
	if d.diskUse == nil {
		d.diskUse = useOf
	}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.config.Director.DataDir, err = filepath.Abs(d.config.Director.DataDir); err != nil {
		return nil, fmt.Errorf("director: director.data_dir: %w", err)
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
	lockPatience = 2 * time.Second
	lockRetry    = 20 * time.Millisecond
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
	for began := time.Now(); errors.Is(err, syscall.EWOULDBLOCK) && time.Since(began) < lockPatience && ctx.Err() == nil; err = take() {
		time.Sleep(lockRetry)
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
	tables, problems := d.config.Tables()
	d.classifier, d.policy = tables.Classifier, tables.Policy
	var stages, binary, environ, access, checkouts error
	d.stages, stages = stagePlans(d.config)
	d.workerBinary, binary = FindWorker(o.WorkerBinary)
	d.environ, d.secrets, environ = passedOn(d.config.Containers.Env, d.config.Containers.EnvPassthrough)
	// Docker mounts a checkout without going through its parents; another user's plain process has to pass them.
	plain := d.plainProcesses()
	if plain {
		access = os.Chmod(d.config.Director.DataDir, 0o711)
	}
	uid, gid := d.config.Containers.UIDGID()
	d.workspace, checkouts = workspace.Open(workspace.Options{
		Dir: d.config.Director.DataDir, Owner: &workspace.Owner{UID: uid, GID: gid}, Passable: plain,
		Auth: d.gitAuth(o), Log: d.log, StatePaths: d.config.Agents.StatePaths(d.config.Stages), Limits: limits(d.config.Checkout), Quota: d.config.Checkout.QuotaBytes(),
	})
	return errors.Join(problems.Err(), access, binary, environ, checkouts, stages)
}

// limits are what an agent may leave in its checkout.
func limits(c config.Checkout) workspace.Limits {
	return workspace.Limits{
		Files: c.MaxFiles, Entries: c.MaxEntries, Depth: c.MaxDepth, PathBytes: c.MaxPathBytes, Bytes: int64(c.MaxBytes),
		WorkBytes: int64(c.MaxWorkBytes), GitTime: c.Git, GitMemory: c.GitMemoryBytes(),
	}
}

func (d *daemon) plainProcesses() bool {
	_, plain := d.runtime.(*container.Processes)
	return plain
}

// image is what workers run in; plain processes run in none.
func (d *daemon) image() string {
	if d.plainProcesses() {
		return ""
	}
	return d.config.Containers.Image
}

// gitAuth hands GitHub's token to git; GitHub takes any user name with it.
func (d *daemon) gitAuth(o Options) func(context.Context) (user, token string, err error) {
	return func(ctx context.Context) (string, string, error) {
		token, err := o.Token(ctx)
		return "x-access-token", token, err
	}
}

// workerLifeAfter is how much longer a worker's credential is good than its attempt may last: pauses do not count for the watchdog.
const workerLifeAfter = 24 * time.Hour

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
	if d.config.ValidatesFresh() && d.plainProcesses() {
		return errors.New(`director: worker.validate = "fresh" needs containers, and workers run as plain processes here: give it Docker, or set worker.validate = "inside"`)
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
	o := bus.Options{
		URL: b.URL, Prefix: b.Prefix, Fleet: d.config.Director.Fleet, Replicas: b.Replicas, MaxMessageBytes: b.MaxMessageBytes,
		Dir: filepath.Join(d.config.Director.DataDir, "bus"), WorkerLife: d.config.Timeouts.WorkerWatchdog + workerLifeAfter,
		RunID: d.runID, Log: d.log, OnOffence: d.offended,
	}
	if b.URL != "" {
		o.Keys, err = keys.Load(b.Credentials)
	} else {
		o.Server, err = server.Start(ctx, server.Options{
			Dir: o.Dir, ListenHosts: slices.Compact(hosts), Names: []string{gateway}, Port: b.ListenPort, MaxWorkers: d.config.Director.MaxWorkers,
			Prefix: b.Prefix, Fleet: d.config.Director.Fleet, SyncAlways: b.Sync == "always", Log: d.log,
		})
	}
	if err != nil {
		return err
	}
	d.bus, err = bus.Open(ctx, o)
	return err
}

// openGitHub opens what the token is needed for: GitHub, and the look at patches, which must not have it.
func (d *daemon) openGitHub(ctx context.Context, o Options) error {
	c := d.config.GitHub
	token, err := o.Token(ctx)
	if err != nil {
		return err
	}
	d.token, d.known = o.Token, append(secretsAmong(d.environ), leak.Value{Name: tokenName, Text: token})
	d.github, err = github.New(github.Options{
		BaseURL: c.APIURL, Token: o.Token, Fleet: d.config.Director.Fleet, Labels: github.Labels(c.Labels),
		MinBetweenWrites: d.config.RateLimits.GitHub.MinBetweenWrites,
		TrustedAuthors:   c.TrustedAuthors,
		MaxConcurrent:    d.config.RateLimits.GitHub.MaxConcurrentRequests,
		CooldownDefault:  d.config.RateLimits.GitHub.CooldownOnRateLimit,
		Writes:           c.Writes, Secrets: append(slices.Clone(d.secrets), token), Known: d.known, Transport: o.Transport,
		OnCooldown: d.coolDown, Log: d.log,
	})
	if err != nil {
		return err
	}
	d.scope, err = scope.New(scope.Options{
		Deny: d.config.Scope.Deny, Allow: d.config.Scope.Allow, AllowSecrets: d.config.Scope.AllowSecrets,
		MaxFileBytes: int64(d.config.Scope.MaxFileBytes),
	})
	return err
}

// coolDown passes a cooldown of the gate on. The gate has shut already; if the owner is that far behind, it learns from the
// next refusal.
func (d *daemon) coolDown(c github.Cooldown) {
	select {
	case d.cooldowns <- c:
	default:
	}
}

// openRepository makes sure, once, that the repository answers and has our labels. A limit is no reason not to start: the
// first poll that is answered looks again.
func (d *daemon) openRepository(ctx context.Context, repo string) error {
	if _, done := d.labelled.Load(repo); done {
		return nil
	}
	err := d.github.EnsureLabels(ctx, repo)
	var limit *github.Error
	switch {
	case err == nil:
		d.labelled.Store(repo, true)
		return nil
	case errors.Is(err, github.ErrWritesDisabled):
		d.labelled.Store(repo, true)
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
	close(d.closing)
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
		d.log.Warn("shutdown was incomplete", zap.Error(err))
	}
}

// stagePlans are the configured stages as workers get them: an agent's profile becomes a command.
func stagePlans(c config.Config) ([]wire.StagePlan, error) {
	var out []wire.StagePlan
	var faults []error
	for _, g := range c.Stages {
		p, err := c.Agents.Expand(g)
		out, faults = append(out, p), append(faults, err)
	}
	return out, errors.Join(faults...)
}

// alternative is the model to change to when a verdict wants another one: that of the first stage that has one.
func alternative(stages []wire.StagePlan) string {
	for _, g := range stages {
		if g.AlternativeModel != "" {
			return g.AlternativeModel
		}
	}
	return ""
}

// models are the resources that the stages use. None: a stage's program may use any.
func models(stages []wire.StagePlan) (out []string) {
	for _, g := range stages {
		if g.Name == wire.StageCode && g.Agent == nil && g.Resource == "" {
			return nil
		}
		for _, model := range []string{g.Model, g.AlternativeModel} {
			r := agent.Resource(g, model)
			if (g.Agent != nil || g.Resource != "") && !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// passedOn collects the variables that workers may see, and which of their values are secrets: all that are passed on
// from the director's own environment.
func passedOn(env map[string]string, names []string) (environ, secrets []string, err error) {
	for _, k := range sortedKeys(env) {
		environ = append(environ, k+"="+env[k])
	}
	for _, name := range names {
		v, ok := os.LookupEnv(name)
		if !ok {
			return nil, nil, fmt.Errorf("director: containers.env_passthrough names %s, which is not set: export it, or take it off the list", name)
		}
		environ = append(environ, name+"="+v)
		secrets = append(secrets, v)
	}
	return environ, secrets, nil
}

// tokenName is what people are told that GitHub's token is.
const tokenName = "GitHub token"

// secretsAmong are the variables whose values no patch may have. Others, such as a proxy's address, may stand in any file.
func secretsAmong(environ []string) (values []leak.Value) {
	for _, variable := range environ {
		if name, value, _ := strings.Cut(variable, "="); leak.Variable(name, value) {
			values = append(values, leak.Value{Name: name, Text: value})
		}
	}
	return values
}

const elfMagic = "\x7fELF"

// FindWorker returns the static worker binary: the given path, or the file "worker" beside this program.
func FindWorker(path string) (string, error) {
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("director: own path: %w", err)
		}
		path = filepath.Join(filepath.Dir(self), "worker")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("director: worker binary: %w", err)
	}
	f, err := os.Open(abs)
	if err != nil {
		return "", fmt.Errorf("director: no worker binary at %s: run \"make build\", or name it with --worker-binary", abs)
	}
	defer f.Close()
	magic := make([]byte, len(elfMagic))
	if _, err := io.ReadFull(f, magic); err != nil || string(magic) != elfMagic {
		return "", fmt.Errorf("director: %s is not a Linux program: run \"make build\", or name the worker with --worker-binary", abs)
	}
	return abs, nil
}
