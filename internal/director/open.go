package director

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director/disk"
	"retake/internal/director/effects"
	"retake/internal/director/intake"
	"retake/internal/director/lead"
	"retake/internal/director/loop"
	"retake/internal/director/restore"
	"retake/internal/director/serve"
	"retake/internal/director/telemetry"
	"retake/internal/director/workers"
	"retake/internal/github"
	"retake/internal/github/gate"
	"retake/internal/output"
	"retake/internal/safefile"
	"retake/internal/secrets/leak"
	"retake/internal/sys/hidden"
	"retake/internal/workspace"
)

// open creates the adapters, and reports all missing prerequisites at once. With serves it answers queries.
func open(ctx context.Context, o Options, serves bool) (_ *daemon, err error) {
	d := newDaemon(o)
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if err := d.findDirectories(); err != nil {
		return nil, err
	}
	if err := d.lock.Take(ctx, d.config.Director.DataDir); err != nil {
		return nil, err
	}
	d.disk = d.newDiskGuard(cmp.Or(o.badDiskFor, leadsOnBadDisk))
	if err := d.fleetFile().Check(); err != nil {
		return nil, err
	}
	if serves {
		if d.telemetry, err = telemetry.Open(d.config, d.runID, d.log); err != nil {
			return nil, err
		}
		d.log = d.telemetry.Log(d.log)
		var taken error
		d.web, taken = serve.ListenHTTP(ctx, d.config.Director.HTTPListen)
		if err := errors.Join(d.listenOperator(ctx), taken); err != nil {
			return nil, err
		}
	}
	d.hub = &lead.Hub{
		Joined: d.config.AgentBus.URL != "", Connect: d.connect, Disk: d.disk, Say: d.operator.Say, Log: d.log,
	}
	d.candidate = d.newCandidate(d.hub.Bus)
	d.candidate.Able, d.candidate.StandBy = d.disk.Able, d.standBy
	if err := errors.Join(d.openContainersAndBus(ctx), d.openLocal(o), d.openGitHub(ctx, o)); err != nil {
		return nil, err
	}
	d.restorer = d.newRestorer(cmp.Or(o.findPatience, restore.FindPatience))
	d.candidate.Marker, _ = d.runtime.(lead.Marker)
	if err := d.openEgress(ctx); err != nil {
		return nil, err
	}
	d.telemetry.Hide(d.github.Redact)
	if o.HideInLog != nil {
		o.HideInLog(d.github.Secrets)
	}
	d.startReading(o)
	d.audit = audit.Open(d.config.Director.DataDir, audit.Options{Log: d.log, Redact: d.github.Redact})
	d.metrics.ReadWith(d.readings)
	d.outputs = output.Open(d.config.Director.DataDir, output.Options{Log: d.log})
	if d.page, err = d.openPage(); err != nil {
		return nil, err
	}
	d.web.Serve(d.routes(), d.log)
	return d, nil
}

// newDaemon returns a daemon without adapters. Intervals that the options leave out have their defaults.
func newDaemon(o Options) *daemon {
	now := time.Now().UTC()
	d := &daemon{
		config: o.Config, watchdog: o.Config.Timeouts.WorkerWatchdog, log: o.Log, since: now,
		runID:      "run_" + now.Format("20060102-150405Z"),
		runtime:    o.Runtime,
		internet:   o.Outside,
		driftEvery: cmp.Or(o.DriftEvery, workers.DriftEvery), wholeEvery: cmp.Or(o.wholeEvery, intake.WholeEvery),
		commentsEvery: cmp.Or(o.commentsEvery, intake.CommentsEvery),
		decides:       o.decides,
		diskUse:       o.diskUse, journalBytes: o.journalBytes, writer: "director-" + loop.NewNonce(),
		cooldowns: make(chan gate.Cooldown, 64),
		offences:  workers.NewWake(), webhooks: intake.NewWebhooks(o.WebhookSecret, o.Log),
	}
	d.openMetrics(cmp.Or(o.Version, "unknown"))
	if d.diskUse == nil {
		d.diskUse = disk.UseOf
	}
	return d
}

// findDirectories makes the configured directories absolute, and creates the shared one.
func (d *daemon) findDirectories() error {
	var err error
	if d.config.Director.DataDir, err = filepath.Abs(d.config.Director.DataDir); err != nil {
		return fmt.Errorf("director: director.data_dir: %w", err)
	}
	if d.config.Director.SharedDir != "" {
		if d.config.Director.SharedDir, err = filepath.Abs(d.config.Director.SharedDir); err == nil {
			err = safefile.MkdirAll(d.config.Director.SharedDir, 0o700)
		}
		if err != nil {
			return fmt.Errorf("director: director.shared_dir: %w", err)
		}
	}
	return nil
}

// installation returns the permanent name of this data directory. A director removes only what carries that name.
func (d *daemon) installation() (string, error) {
	return d.installationOf(d.config.Director.DataDir)
}

// installationOf returns the permanent name of a directory, and creates it if necessary.
func (d *daemon) installationOf(dir string) (string, error) {
	path := filepath.Join(dir, "installation")
	name := ""
	err := safefile.Load(path, func(data []byte) error {
		if name = string(data); !loop.NonceForm.MatchString(name) {
			return fmt.Errorf("%d bytes that are no name", len(data))
		}
		return nil
	})
	if damaged, ok := errors.AsType[*safefile.Damaged](err); ok {
		d.log.Warn("this data directory gets another name: containers that it had made are another director's now",
			zap.Error(damaged))
	}
	if errors.Is(err, os.ErrNotExist) {
		name = loop.NewNonce()
		// another director that shares the directory was first
		if err = safefile.WriteNew(path, 0o600, []byte(name)); errors.Is(err, os.ErrExist) {
			return d.installationOf(dir)
		}
	}
	if err != nil {
		return "", fmt.Errorf("director: the name of %s: %w", dir, err)
	}
	return name, nil
}

func (d *daemon) openLocal(o Options) error {
	first, tables := d.newSetup(o.Config, ownSums(o.Config))
	var binary, access, checkouts error
	d.workerBinary, binary = FindWorker(o.WorkerBinary)
	passed, environ := passedOn(d.config.Containers.Env, d.config.Containers.EnvPassthrough,
		d.config.Containers.Secrets)
	d.environ, d.secrets, d.known = passed.environ, passed.secrets, passed.known
	var proxied error
	d.keys, proxied = proxiedKeys(first.Containers.ProxiedKeys)
	for _, name := range sortedKeys(d.keys) {
		d.known = append(d.known, leak.Value{Name: name, Text: d.keys[name].Value})
	}
	// Docker mounts a checkout without traversing its parents. A plain process of another user must traverse them.
	plain := d.plainProcesses()
	if plain {
		access = os.Chmod(d.sharedDir(), 0o711)
	}
	uid, gid := d.config.Containers.UIDGID()
	d.workspace, checkouts = workspace.Open(workspace.Options{
		Dir: d.sharedDir(), Owner: &workspace.Owner{UID: uid, GID: gid}, Passable: plain,
		Auth: d.gitAuth(o), Log: d.log, StatePaths: first.Agents.StatePaths(first.Stages),
		Limits: limits(d.config.Checkout), Quota: d.config.Checkout.QuotaBytes(),
	})
	d.inForce.Store(first)
	return errors.Join(tables, access, binary, environ, proxied, checkouts)
}

// limits returns the bounds on what an agent may leave in its checkout.
func limits(c config.Checkout) workspace.Limits {
	return workspace.Limits{
		Files: c.MaxFiles, Entries: c.MaxEntries, Depth: c.MaxDepth, PathBytes: c.MaxPathBytes,
		Bytes:     int64(c.MaxBytes),
		WorkBytes: int64(c.MaxWorkBytes), GitTime: c.Git, GitMemory: c.GitMemoryBytes(),
	}
}

// sharedDir is the directory of the checkouts and of the name that marks containers, both of which a successor
// needs.
func (d *daemon) sharedDir() string {
	return cmp.Or(d.config.Director.SharedDir, d.config.Director.DataDir)
}

// sharedKey returns the configuration key of sharedDir, for people.
func (d *daemon) sharedKey() string {
	if d.config.Director.SharedDir == "" {
		return "director.data_dir"
	}
	return "director.shared_dir"
}

// leadsOnBadDisk is how long a director with an unwritable disk keeps leading if another one may lead.
const leadsOnBadDisk = time.Minute

func (d *daemon) newDiskGuard(badFor time.Duration) *disk.Guard {
	dir := d.config.Director.DataDir
	return &disk.Guard{
		Dir: dir, Shared: d.sharedDir(), SharedKey: d.sharedKey(), Reserve: d.config.Director.DiskReserveBytes(),
		Watermark: func() float64 { return d.setup().Director.DiskWatermark },
		Renew:     func() error { return d.lock.Renew(dir) }, BadFor: badFor, Log: d.log, Probe: disk.Probe,
	}
}

func (d *daemon) plainProcesses() bool {
	_, plain := d.runtime.(*container.Processes)
	return plain
}

// image returns the image of the workers. Plain processes have no image.
func (d *daemon) image() string {
	if d.plainProcesses() {
		return ""
	}
	return d.config.Containers.Image
}

// gitAuth passes GitHub's token to git. GitHub accepts any user name with a token.
func (d *daemon) gitAuth(o Options) func(context.Context) (user, token string, err error) {
	return func(ctx context.Context) (string, string, error) {
		token, err := o.Token(ctx)
		return "x-access-token", token, err
	}
}

// workerLifeAfter is how long a worker's credential outlasts the maximum life of its attempt. The watchdog does not
// count pauses.
const workerLifeAfter = 24 * time.Hour

func (d *daemon) openContainersAndBus(ctx context.Context) error {
	if d.runtime == nil {
		owner, err := d.ownerOfAttempts()
		if err != nil {
			return err
		}
		var runtime container.Runtime
		if err := d.awaitEngine(ctx,
			func() (err error) { runtime, err = d.openRuntime(ctx, owner); return err }); err != nil {
			return err
		}
		d.runtime = runtime
		if err := d.awaitEngine(ctx,
			func() error { return runtime.EnsureImage(ctx, d.config.Containers.Image) }); err != nil {
			return err
		}
	}
	if d.config.ValidatesFresh() && d.plainProcesses() {
		return errors.New(
			`director: worker.validate = "fresh" needs containers, and workers run as plain processes here: give it Docker, or set worker.validate = "inside"`)
	}
	if err := d.awaitEngine(ctx,
		func() (err error) { d.gateway, err = d.runtime.EnsureNetwork(ctx); return err }); err != nil {
		return err
	}
	return d.hub.Open(ctx)
}

// openGitHub opens everything that needs the token: the client, and the check of patches, which must not contain
// it.
func (d *daemon) openGitHub(ctx context.Context, o Options) error {
	c := d.setup().GitHub
	token, err := o.Token(ctx)
	if answer, ok := errors.AsType[*github.Error](err); ok && answer.Kind == github.KindTransient {
		err = nil // GitHub, which mints an App's tokens, is unreachable: the session waits for it
	}
	if err != nil {
		return err
	}
	d.token, d.known = o.Token, append(d.known, leak.Value{Name: effects.TokenName, Text: token})
	d.github, err = github.New(github.Options{
		BaseURL: c.APIURL, Token: o.Token, Login: o.Login, Fleet: d.config.Director.Fleet,
		Labels:           github.Labels(c.Labels),
		MinBetweenWrites: d.config.RateLimits.GitHub.MinBetweenWrites, LeastBetween: o.LeastBetween,
		FirstProbe:      o.firstProbe,
		TrustedAuthors:  c.TrustedAuthors,
		MaxConcurrent:   d.config.RateLimits.GitHub.MaxConcurrentRequests,
		CooldownDefault: d.config.RateLimits.GitHub.CooldownOnRateLimit,
		Writes:          c.Writes, Secrets: append(append(slices.Clone(d.secrets), d.keyValues()...), token),
		Known: d.known, Transport: d.candidate.Transport(cmp.Or(o.Transport, http.DefaultTransport)),
		OnCooldown: d.coolDown, OnAnswer: d.requested, Log: d.log,
	})
	return err
}

// coolDown passes on a cooldown of the gate without blocking. The gate has already closed. If the channel is full,
// the owner learns of the cooldown from the next refusal.
func (d *daemon) coolDown(c gate.Cooldown) {
	select {
	case d.cooldowns <- c:
	default:
	}
}

func (d *daemon) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if d.outputs != nil { // first, to release readers that follow output
		d.outputs.Close()
	}
	errs := []error{d.operator.Close(), d.web.Close()}
	if d.audit != nil {
		errs = append(errs, d.audit.Close(ctx))
	}
	if d.outside.proxy != nil {
		errs = append(errs, d.outside.proxy.Close())
	}
	if d.hub != nil {
		errs = append(errs, d.hub.Close(ctx))
	}
	if d.runtime != nil {
		errs = append(errs, d.runtime.Close())
	}
	errs = append(errs, d.telemetry.Close(ctx))
	errs = append(errs, d.lock.Close())
	if err := errors.Join(errs...); err != nil {
		d.log.Warn("shutdown was incomplete", zap.Error(err))
	}
}

// passed holds the variables for workers.
type passed struct {
	environ []string // "NAME=value"
	// values that workers mask: all from the director's environment, and those declared secret
	secrets []string
	known   []leak.Value // values that no patch may contain; others, such as a proxy's address, may appear in any file
}

// passedOn collects the variables for workers. declared lists names that are secret, and with a leading ! names
// that are not. For the rest, leak.Variable decides.
func passedOn(env map[string]string, names, declared []string) (p passed, err error) {
	add := func(name, value string, ofDirector bool) {
		is, isNot := slices.Contains(declared, name), slices.Contains(declared, config.NoSecret+name)
		p.environ = append(p.environ, name+"="+value)
		if is || ofDirector && !isNot {
			p.secrets = append(p.secrets, value)
		}
		if is || !isNot && leak.Variable(name, value) {
			p.known = append(p.known, leak.Value{Name: name, Text: value})
		}
	}
	for _, name := range sortedKeys(env) {
		add(name, env[name], false)
	}
	for _, name := range names {
		v, ok := hidden.Lookup(name)
		if !ok {
			return passed{}, fmt.Errorf("director: containers.env_passthrough names %s, which is not set: export it, "+
				"or take it off the list", name)
		}
		add(name, v, true)
	}
	return p, nil
}

const elfMagic = "\x7fELF"

// FindWorker returns the path of the static worker binary: the given path, or the file "worker" beside this
// program.
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
		return "", fmt.Errorf("director: no worker binary at %s: run \"make build\", or name it with --worker-binary",
			abs)
	}
	defer f.Close()
	magic := make([]byte, len(elfMagic))
	if _, err := io.ReadFull(f, magic); err != nil || string(magic) != elfMagic {
		return "", fmt.Errorf("director: %s is not a Linux program: run \"make build\", or name the worker with "+
			"--worker-binary", abs)
	}
	return abs, nil
}
