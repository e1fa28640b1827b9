package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"retake/internal/testbed"
)

const repository = "chaos/widgets"

// world is one director with its peers and their files.
type world struct {
	kind
	fleet string
	dir   string // all files except the content of disk
	token string
	log   *eventLog

	host     testbed.Host
	disk     *disk
	nats     *nats // nil for an embedded server
	github   *testbed.GitHub
	proxy    *proxy
	director *testbed.Process
	programs string // directory of the worker binary

	directorBinary string
	rebuilds       bool // the director's configuration lets it rebuild a damaged journal
	leases         bool // set if another director can stand by

	mu        sync.Mutex
	issues    []*issue
	harmed    []harm
	slow      []slow
	lived     []testbed.Worker // workers that were alive while the director was slow
	suspected []suspicion      // by the director
	silenced  []silent
	wrong     []finding // findings of faults, for the table
}

// finding is an entry for a column of the table.
type finding struct{ column, detail string }

// found records a finding.
func (w *world) found(column, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, finding{column, fmt.Sprintf(format, args...)})
}

// harm is an event that ended a worker. The auditor uses it to excuse missing reports.
type harm struct {
	attempt string // "" for all workers
	at      time.Time
}

// hurt records that a fault just ended a worker. An empty attempt means all workers.
func (w *world) hurt(attempt string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.harmed = append(w.harmed, harm{attempt, time.Now()})
}

func (w *world) runs() string   { return filepath.Join(w.dir, "runs") }
func (w *world) config() string { return filepath.Join(w.dir, "config.toml") }
func (w *world) data() string   { return filepath.Join(w.disk.dir, "data") }

// processes returns the host for plain-process workers of the director with this data directory.
func (w *world) processes(data string) *testbed.Processes {
	return &testbed.Processes{
		Dir: filepath.Join(data, "processes"), Agent: filepath.Join(w.dir, "agent"), Fleet: w.fleet,
	}
}

// newWorld creates a world with a running, healthy director. On error, it removes everything it has created.
func newWorld(ctx context.Context, k kind, o Options, log *eventLog) (_ *world, err error) {
	w := &world{
		kind: k, fleet: "chaos-" + strings.ToLower(rand.Text()[:8]), token: "chaos-" + rand.Text(), log: log,
		programs: o.Programs, directorBinary: o.Director,
	}
	if w.dir, err = os.MkdirTemp("", "retake-"+w.fleet+"-"); err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.keep(o.Keep), w.clear())
		}
	}()
	if err := errors.Join(os.Chmod(w.dir, 0o711), os.Mkdir(w.runs(), 0o777), os.Chmod(w.runs(), 0o777)); err != nil {
		return nil, err
	}
	if w.disk, err = openDisk(w.dir); err != nil {
		return nil, err
	}
	if err := errors.Join(os.Mkdir(w.data(), 0o711), os.Chmod(w.data(), 0o711)); err != nil {
		return nil, err
	}
	w.host = w.processes(w.data())
	if k.runtime == testbed.RuntimeDocker {
		engine, err := testbed.OpenDocker(ctx, w.fleet)
		if err != nil {
			return nil, err
		}
		engine.Worker = filepath.Join(w.programs, "worker")
		w.host = engine
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	agent, err := w.host.Install(ctx, self)
	if err != nil {
		return nil, fmt.Errorf("chaos: install the agent: %w", err)
	}
	switch k.bus {
	case busJoined:
		w.nats, err = startNATS(ctx, w, self)
	case busCluster:
		w.nats, err = startCluster(ctx, w, self)
	}
	if err != nil {
		return nil, err
	}
	if err := w.openGitHub(ctx); err != nil {
		return nil, err
	}
	if err := w.configure(agent); err != nil {
		return nil, err
	}
	w.director = w.newDirector("director", w.config())
	if err := w.director.Start(); err != nil {
		return nil, err
	}
	return w, w.awaitWell(ctx, time.Minute)
}

// configure writes the configurations of the director and of the standby. It omits keys that this version of the
// director does not know.
func (w *world) configure(agent string) error {
	if err := os.WriteFile(w.config(), []byte(w.configText(agent, w.data())), 0o600); err != nil {
		return err
	}
	w.rebuilds = w.knows(rebuilds)
	w.leases = w.bus == busJoined && w.knows(fmt.Sprintf("director.lease_seconds=%v", lease.Seconds()))
	if w.leases && w.runtime == testbed.RuntimeProcess {
		w.host = w.processes(w.shared())
	}
	return errors.Join(
		os.WriteFile(w.config(), []byte(w.configText(agent, w.data())), 0o600),
		os.WriteFile(w.standbyConfig(), []byte(w.configText(agent, w.standbyData())), 0o600),
	)
}

func (w *world) newDirector(name, config string) *testbed.Process {
	return &testbed.Process{
		Name: name, Argv: []string{
			w.directorBinary, "run", "--config", config, "--worker-binary",
			filepath.Join(w.programs, "worker"),
		},
		Env: testbed.DirectorEnv(os.Environ(), w.token), Log: filepath.Join(w.dir, name+".log"),
	}
}

// openGitHub starts the GitHub stand-in, and the proxy between it and the director.
func (w *world) openGitHub(ctx context.Context) (err error) {
	w.github, err = testbed.OpenGitHub(ctx, testbed.GitHubOptions{
		Dir: filepath.Join(w.dir, "git"), Repository: repository, Files: map[string]string{"README.md": "# widgets\n"},
		Token: w.token, RateLimit: 1_000_000, Front: func(to http.Handler) http.Handler {
			w.proxy = &proxy{to: to}
			return w.proxy
		},
	})
	return err
}

// containers returns the [containers] section, which mounts runsFile's directory into all workers.
func (w *world) containers() string {
	text := w.host.Settings() + fmt.Sprintf("mounts = [%q]\n", w.runs()+":"+w.runs()+":rw")
	if w.runtime == testbed.RuntimeDocker {
		text += "env = { HOME = \"/tmp\" }\n"
	}
	return text
}

// configText returns the director's configuration. Its time limits are as short as possible.
func (w *world) configText(agent, data string) string {
	bus := "listen_port = 0\n"
	if w.nats != nil {
		bus = w.nats.settings()
	}
	more, journal := "", ""
	if w.leases {
		more = fmt.Sprintf("lease_seconds = %v\nshared_dir = %q\n", lease.Seconds(), w.shared())
	}
	if w.rebuilds {
		journal = "[journal]\non_damage = \"rebuild\"\n"
	}
	return fmt.Sprintf(configText, w.fleet, data, more, w.ttl.Seconds(), w.containers(), w.ttl.Seconds()/3, bus,
		repository, w.github.API(), agent, w.runs(), agent, w.runs()) + journal
}

const configText = `[director]
fleet = %q
data_dir = %q
%smax_workers = 8
max_retries = 8
interval_seconds = 5
[timeouts]
worker_heartbeat_ttl_seconds = %v
worker_start_seconds = 30
worker_watchdog_seconds = 120
issue_claim_stale_seconds = 600
stop_grace_seconds = 2
[retry]
backoff_initial_seconds = 0.5
backoff_max_seconds = 2
[containers]
%s
[agent_bus]
heartbeat_interval_seconds = %v
%s
[rate_limits.github]
min_seconds_between_writes = 1
cooldown_on_rate_limit_seconds = 2
[github]
repositories = [%q]
api_url = %q
token_env = "GITHUB_TOKEN"
writes = true
poll_seconds = 1
delivery = "pull_request"
[escalation]
remind_after_seconds = 3
incident_issues = false
[[stage]]
name = "CODE"
run = [%q, "agent", %q, "work"]
timeout_seconds = 60
[[stage]]
name = "VALIDATE"
run = [%q, "agent", %q, "check"]
timeout_seconds = 60
`

// awaitWell waits until the director is healthy.
func (w *world) awaitWell(ctx context.Context, most time.Duration) error {
	var last error
	err := testbed.Await(ctx, most, "the director is healthy", func() bool {
		last = testbed.Well(ctx, w.data())
		return last == nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

// live returns the running workers in a deterministic order.
func (w *world) live(ctx context.Context) (live []testbed.Worker) {
	all, err := w.host.Workers(ctx)
	if err != nil {
		w.log.add("could not list workers: %v", err)
	}
	for _, x := range all {
		if x.Lives {
			live = append(live, x)
		}
	}
	slices.SortFunc(live, func(a, b testbed.Worker) int {
		return slices.Compare([]string{a.Task, a.Attempt}, []string{b.Task, b.Attempt})
	})
	return live
}

// clear stops all programs of the world and removes its files.
func (w *world) clear() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	if w.director != nil {
		w.director.Kill()
	}
	if w.github != nil {
		errs = append(errs, w.github.Shutdown())
	}
	if w.host != nil {
		errs = append(errs, w.host.Clear(ctx), w.host.Close())
	}
	if w.nats != nil {
		for _, s := range w.nats.all() {
			s.Kill()
		}
	}
	if w.disk != nil {
		errs = append(errs, w.disk.close())
	}
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}
