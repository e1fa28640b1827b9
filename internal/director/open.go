package director

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"retake/internal/audit"
	"retake/internal/bus/keys"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director/disk"
	"retake/internal/director/effects"
	"retake/internal/director/engine"
	"retake/internal/director/intake"
	"retake/internal/director/lead"
	"retake/internal/director/loop"
	"retake/internal/director/network"
	"retake/internal/director/preflight"
	"retake/internal/director/reload"
	"retake/internal/director/restore"
	"retake/internal/director/serve"
	"retake/internal/director/telemetry"
	"retake/internal/director/workers"
	"retake/internal/egress"
	"retake/internal/github"
	"retake/internal/github/api"
	"retake/internal/github/gate"
	"retake/internal/github/pages"
	"retake/internal/github/tracker"
	"retake/internal/output"
	"retake/internal/safefile"
	"retake/internal/secrets/leak"
	"retake/internal/workspace"
)

// take locks the data directory. If serves is false, the caller is a command. If the lock is then already taken, the
// error advises the user to stop the director.
func (d *daemon) take(ctx context.Context, serves bool) error {
	err := d.lock.Take(ctx, d.config.Director.DataDir)
	if !serves {
		err = lead.StopFirst(err, d.config.Director.DataDir)
	}
	if err == nil {
		d.keepPrivate()
	}
	return err
}

// keepPrivate removes other users' access to the files in the data directory.
func (d *daemon) keepPrivate() {
	found, err := safefile.Restrict(d.config.Director.DataDir)
	if len(found) > 0 {
		d.log.Warn("other users had access to files in director.data_dir", zap.Stringers("closed", found),
			zap.Error(err))
	} else if err != nil {
		d.log.Warn("could not check permissions of director.data_dir", zap.Error(err))
	}
}

// open creates the adapters, and reports all missing prerequisites at once. If serves is set, it also opens the
// operator's socket and director.http_listen.
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
	if err := d.take(ctx, serves); err != nil {
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
	d.hub = newHub(d)
	d.candidate = d.newCandidate()
	d.engine = &engine.Engine{Config: d.config, Say: d.operator.Say, Log: d.log}
	if err := errors.Join(d.openContainersAndBus(ctx), d.openLocal(o), d.openGitHub(ctx, o)); err != nil {
		return nil, err
	}
	d.restorer = d.newRestorer(cmp.Or(o.findPatience, restore.FindPatience))
	d.candidate.Marker, _ = d.runtime.(lead.Marker)
	if err := d.openNetwork(ctx, o.Outside); err != nil {
		return nil, err
	}
	d.repositories = &intake.Repositories{
		GitHub: d.github, Names: d.config.GitHub.Repositories, BaseBranch: d.baseBranch,
		Unusable: &d.unusable, Log: d.log,
	}
	d.telemetry.Hide(d.github.Text.Redact)
	if o.HideInLog != nil {
		o.HideInLog(d.github.Text.Secrets)
	}
	d.reload = d.newReload(o)
	d.reload.Begin()
	d.audit = audit.Open(d.config.Director.DataDir, audit.Options{Log: d.log, Redact: d.github.Text.Redact})
	d.metrics.ReadWith(d.readings)
	d.outputs = output.Open(d.config.Director.DataDir, output.Options{Log: d.log})
	if d.page, err = d.openPage(); err != nil {
		return nil, err
	}
	d.web.Serve(d.routes(), d.log)
	return d, nil
}

// newDaemon returns a daemon without adapters. Intervals that are unset in the options get their defaults.
func newDaemon(o Options) *daemon {
	now := time.Now().UTC()
	d := &daemon{
		config: o.Config, watchdog: o.Config.Timeouts.WorkerWatchdog, log: o.Log, since: now, configFile: o.ConfigFile,
		runID:      "run_" + now.Format("20060102-150405Z"),
		runtime:    o.Runtime,
		driftEvery: cmp.Or(o.DriftEvery, workers.DriftEvery), wholeEvery: cmp.Or(o.wholeEvery, intake.WholeEvery),
		commentsEvery: cmp.Or(o.commentsEvery, intake.CommentsEvery),
		programsEvery: cmp.Or(o.programsEvery, preflight.SearchEvery), searches: o.Runtime == nil,
		decides: o.decides,
		diskUse: o.diskUse, journalBytes: o.journalBytes, beforeAppend: o.beforeAppend,
		writer:    "director-" + loop.NewNonce(),
		cooldowns: make(chan gate.Cooldown, 64),
		offences:  loop.NewWake(), reread: loop.NewWake(), webhooks: intake.NewWebhooks(o.WebhookSecret, o.Log),
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

func (d *daemon) openLocal(o Options) error {
	first, tables := reload.First(o.Config, d.config.Director.DataDir, d.config.Director.SharedDir)
	var binary, environ, access, checkouts error
	d.workerBinary, binary = engine.FindWorker(o.WorkerBinary)
	d.environ, environ = engine.NewEnviron(first.Containers)
	d.known = d.environ.Known
	// Docker mounts a checkout without traversing its parents, but a plain process of another user must traverse
	// them.
	plain := d.plainProcesses()
	if plain {
		access = os.Chmod(d.config.SharedDir(), 0o711)
	}
	uid, gid := d.config.Containers.UIDGID()
	d.workspace, checkouts = workspace.Open(workspace.Options{
		Dir: d.config.SharedDir(), Owner: &workspace.Owner{UID: uid, GID: gid}, Passable: plain,
		Auth: d.gitAuth(o), Log: d.log, StatePaths: first.Agents.StatePaths(first.Stages),
		Limits: limits(d.config.Checkout), Quota: d.config.Checkout.QuotaBytes(),
	})
	d.inForce.Store(first)
	return errors.Join(tables, access, binary, environ, checkouts)
}

// limits returns the limits on a checkout's contents.
func limits(c config.Checkout) workspace.Limits {
	return workspace.Limits{
		Files: c.MaxFiles, Entries: c.MaxEntries, Depth: c.MaxDepth, PathBytes: c.MaxPathBytes,
		Bytes:     int64(c.MaxBytes),
		WorkBytes: int64(c.MaxWorkBytes), GitTime: c.Git, GitMemory: c.GitMemoryBytes(),
	}
}

// leadsOnBadDisk limits how long a director with an unwritable disk keeps leading, if another director may take over.
const leadsOnBadDisk = time.Minute

func (d *daemon) newDiskGuard(badFor time.Duration) *disk.Guard {
	dir := d.config.Director.DataDir
	return &disk.Guard{
		Dir: dir, Shared: d.config.SharedDir(), SharedKey: d.config.SharedKey(),
		Reserve:   d.config.Director.DiskReserveBytes(),
		Watermark: func() float64 { return d.setup().Director.DiskWatermark },
		Renew:     func() error { return d.lock.Renew(dir) }, BadFor: badFor, Log: d.log, Probe: disk.Probe,
	}
}

func (d *daemon) plainProcesses() bool {
	_, plain := d.runtime.(*container.Processes)
	return plain
}

// image returns the workers' image. Plain processes do not use an image.
func (d *daemon) image() string {
	if d.plainProcesses() {
		return ""
	}
	return d.config.Containers.Image
}

// gitAuth returns a function that returns the credentials for git: GitHub's token, and a user name that GitHub ignores.
func (d *daemon) gitAuth(o Options) func(context.Context) (user, token string, err error) {
	return func(ctx context.Context) (string, string, error) {
		token, err := o.Token(ctx)
		return "x-access-token", token, err
	}
}

// workerLifeAfter is added to the maximum attempt lifetime to get the lifetime of the worker's credential. An attempt
// can exceed its maximum lifetime, because the watchdog does not count pauses.
const workerLifeAfter = 24 * time.Hour

// ownerOfAttempts returns the permanent id with which the runtime marks this director's attempts. Usually this is the
// id of the directory with the checkouts. On a cluster with a shared bus it is an id derived from the bus's keys,
// because the directors there share only the bus.
func (d *daemon) ownerOfAttempts() (string, error) {
	if !d.config.OnCluster() || d.config.AgentBus.URL == "" {
		return lead.Installation(d.config.SharedDir(), d.log)
	}
	k, err := keys.Load(d.config.AgentBus.Credentials)
	if err != nil {
		return "", err
	}
	return k.Workers(), nil
}

func (d *daemon) openNetwork(ctx context.Context, change func(*egress.Options)) (err error) {
	d.network, err = network.Open(ctx, network.Options{
		Config: d.config, Keys: d.environ.Keys, Runtime: d.runtime, Gateway: d.gateway,
		BusURL: d.hub.Bus().WorkerURL(d.gateway), WorkerBinary: d.workerBinary, Await: d.engine.Await, Change: change,
		Log: d.log,
	})
	return err
}

func (d *daemon) openContainersAndBus(ctx context.Context) error {
	if d.runtime == nil {
		owner, err := d.ownerOfAttempts()
		if err != nil {
			return err
		}
		if d.runtime, err = d.engine.Open(ctx, owner); err != nil {
			return err
		}
	}
	if d.config.ValidatesFresh() && d.plainProcesses() {
		return errors.New(
			`director: worker.validate = "fresh" needs containers, but workers run as plain processes here: use Docker, or set worker.validate = "inside"`)
	}
	if err := d.engine.Await(ctx,
		func() (err error) { d.gateway, err = d.runtime.EnsureNetwork(ctx); return err }); err != nil {
		return err
	}
	return d.hub.Open(ctx)
}

// openGitHub creates the GitHub client, and adds the token to the values that a patch must not contain.
func (d *daemon) openGitHub(ctx context.Context, o Options) error {
	c := d.setup().GitHub
	token, err := o.Token(ctx)
	if answer, ok := errors.AsType[*api.Error](err); ok && answer.Kind == api.KindTransient {
		err = nil // GitHub, which mints an App's tokens, is unreachable; the session waits for it
	}
	if err != nil {
		return err
	}
	d.token, d.known = o.Token, append(d.known, leak.Value{Name: effects.TokenName, Text: token})
	d.github, err = github.New(github.Options{
		Options: api.Options{
			BaseURL:          c.APIURL,
			Token:            o.Token,
			Login:            o.Login,
			MinBetweenWrites: d.config.RateLimits.GitHub.MinBetweenWrites,
			LeastBetween:     o.LeastBetween,
			FirstProbe:       o.firstProbe,
			MaxConcurrent:    d.config.RateLimits.GitHub.MaxConcurrentRequests,
			CooldownDefault:  d.config.RateLimits.GitHub.CooldownOnRateLimit,
			Writes:           c.Writes,
			Transport:        d.candidate.Transport(cmp.Or(o.Transport, http.DefaultTransport)),
			OnCooldown:       d.coolDown,
			Owed:             func() int { return int(d.owed.Load()) },
			OnAnswer:         d.requested,
			Log:              d.log,
		},
		Fleet:          d.config.Director.Fleet,
		Labels:         tracker.Labels(c.Labels),
		TrustedAuthors: c.TrustedAuthors,
		Secrets:        append(d.environ.AllSecrets(), token),
		Known:          d.known,
		HostPaths: []pages.HostPath{
			{Path: d.config.Director.DataDir, Name: "<data_dir>"},
			{Path: d.config.Director.SharedDir, Name: "<shared_dir>"},
		},
	})
	return err
}

// coolDown forwards a cooldown from the gate without blocking. If the channel is full, it drops the cooldown. The gate
// is closed anyway, and reports the cooldown again when GitHub refuses the next request.
func (d *daemon) coolDown(c gate.Cooldown) {
	select {
	case d.cooldowns <- c:
	default:
	}
}

func (d *daemon) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if d.outputs != nil { // first, to release the readers that follow output
		d.outputs.Close()
	}
	errs := []error{d.operator.Close(), d.web.Close(), d.network.Close()}
	if d.audit != nil {
		errs = append(errs, d.audit.Close(ctx))
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
		d.log.Warn("shutdown incomplete", zap.Error(err))
	}
}

func (d *daemon) newReload(o Options) *reload.Reader {
	return &reload.Reader{
		Config: d.config, InForce: &d.inForce, Again: o.Read, File: o.ConfigFile,
		Every: cmp.Or(o.filesEvery, reload.FilesEvery), LongestWatchdog: d.watchdog + workerLifeAfter/2,
		Image: d.image, LeaveOut: d.workspace.LeaveOut, Since: d.since, Log: d.log,
	}
}
