package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"retake/internal/config"
	"retake/internal/github/githubtest"
)

const (
	repository = "chaos/widgets"
	bot        = "retake-bot"
	person     = "octocat"
)

// The director's labels.
const (
	labelTask    = "agent-task"
	labelClaimed = "agent-claimed"
	labelBlocked = "agent-blocked"
	labelReview  = "agent-review"
)

// kind is what worlds differ in.
type kind struct{ runtime, bus string }

func (k kind) String() string { return k.runtime + ", " + k.bus }

// world is one director with everything around it.
type world struct {
	kind
	fleet string
	dir   string // all files, but for what disk has
	token string
	log   *eventLog

	host     host
	disk     *disk
	nats     *nats // nil: the server is embedded
	github   *githubtest.Server
	proxy    *proxy
	web      *http.Server
	served   chan struct{}
	url      string
	director *process
	programs string // folder of the worker

	directorBinary string
	rebuilds       bool // it is configured to rebuild a damaged journal
	leases         bool // another one may stand by

	mu     sync.Mutex
	issues []*issue
	harmed []harm
	wrong  []finding // what faults themselves have found
}

// finding is something for a column of the table.
type finding struct{ column, detail string }

// found notes something that is wrong.
func (w *world) found(column, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, finding{column, fmt.Sprintf(format, args...)})
}

// harm is something that ended a worker, for the excuses of the auditor.
type harm struct {
	attempt string // "": all of them
	at      time.Time
}

// hurt notes that a worker was ended just now; "" for all of them.
func (w *world) hurt(attempt string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.harmed = append(w.harmed, harm{attempt, time.Now()})
}

func (w *world) runs() string   { return filepath.Join(w.dir, "runs") }
func (w *world) config() string { return filepath.Join(w.dir, "config.toml") }
func (w *world) data() string   { return filepath.Join(w.disk.dir, "data") }
func (w *world) bare() string   { return filepath.Join(w.dir, "git", repository+".git") }

// newWorld makes a world whose director runs and is well. What was made before an error is removed.
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
			err = errors.Join(err, w.clear())
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
	w.host = processes{filepath.Join(w.data(), "processes"), w.fleet}
	if k.runtime == runtimeDocker {
		if w.host, err = openEngine(ctx, w.fleet); err != nil {
			return nil, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	agent, err := w.host.install(ctx, w, self)
	if err != nil {
		return nil, fmt.Errorf("chaos: agent: %w", err)
	}
	if k.bus == busJoined {
		if w.nats, err = startNATS(ctx, w, self); err != nil {
			return nil, err
		}
	}
	if err := w.openGitHub(ctx); err != nil {
		return nil, err
	}
	if err := w.configure(agent); err != nil {
		return nil, err
	}
	w.director = w.newDirector("director", w.config())
	if err := w.director.start(); err != nil {
		return nil, err
	}
	return w, w.awaitWell(ctx, time.Minute)
}

// configure writes the configurations of the director and of the one that stands by. What this director does
// not know is left out.
func (w *world) configure(agent string) error {
	if err := os.WriteFile(w.config(), []byte(w.configText(agent, w.data())), 0o600); err != nil {
		return err
	}
	w.rebuilds = w.knows(rebuilds)
	w.leases = w.nats != nil && w.knows(fmt.Sprintf("director.lease_seconds=%v", lease.Seconds()))
	if w.leases && w.runtime == runtimeProcess {
		w.host = processes{filepath.Join(w.shared(), "processes"), w.fleet}
	}
	return errors.Join(
		os.WriteFile(w.config(), []byte(w.configText(agent, w.data())), 0o600),
		os.WriteFile(w.standbyConfig(), []byte(w.configText(agent, w.standbyData())), 0o600),
	)
}

func (w *world) newDirector(name, config string) *process {
	return &process{
		name: name, argv: []string{
			w.directorBinary, "run", "--config", config, "--worker-binary",
			filepath.Join(w.programs, "worker"),
		},
		env: directorEnvironment(os.Environ(), w.token), log: filepath.Join(w.dir, name+".log"),
	}
}

// directorEnvironment is ours, without what would configure the director.
func directorEnvironment(environ []string, token string) []string {
	out := make([]string, 0, len(environ)+3)
	for _, kv := range environ {
		if !strings.HasPrefix(kv, config.EnvPrefix) && !strings.HasPrefix(kv, "GITHUB_TOKEN=") {
			out = append(out, kv)
		}
	}
	return append(out, "GITHUB_TOKEN="+token, "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
}

// openGitHub starts the stand-in and the proxy before it.
func (w *world) openGitHub(ctx context.Context) error {
	seed := filepath.Join(w.dir, "seed")
	if err := errors.Join(os.Mkdir(seed, 0o755), os.WriteFile(filepath.Join(seed, "README.md"), []byte("# widgets\n"),
		0o644)); err != nil {
		return err
	}
	w.github = githubtest.New(githubtest.Options{
		DataDir: filepath.Join(w.dir, "git"), Person: person,
		RateLimit: 1_000_000,
	})
	w.github.AddUser(bot, w.token)
	w.github.AddUser(person, w.token+person)
	if err := w.github.AddRepo(repository, seed, map[string]string{bot: "write", person: "admin"}); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("chaos: stand-in for GitHub: %w", err)
	}
	w.url = "http://" + listener.Addr().String()
	w.proxy = &proxy{to: w.github}
	w.web = &http.Server{Handler: w.proxy, ReadHeaderTimeout: 10 * time.Second}
	w.served = make(chan struct{})
	go func() {
		defer close(w.served)
		_ = w.web.Serve(listener) // until clear closes it
	}()
	return nil
}

// configText is the director's configuration. Its times are as short as they may be.
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
	return fmt.Sprintf(configText, w.fleet, data, more, w.host.settings(w), bus, repository, w.url+githubtest.APIPath,
		agent, w.runs(), agent, w.runs()) + journal
}

const configText = `[director]
fleet = %q
data_dir = %q
%smax_workers = 4
max_retries = 8
interval_seconds = 5
[timeouts]
worker_heartbeat_ttl_seconds = 5
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
heartbeat_interval_seconds = 1
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

// awaitWell waits until the director says that it is well.
func (w *world) awaitWell(ctx context.Context, most time.Duration) error {
	var last error
	err := await(ctx, most, "the director is well", func() bool {
		last = w.well(ctx)
		return last == nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

// await looks again and again until something is so.
func await(ctx context.Context, most time.Duration, what string, is func() bool) error {
	deadline := time.Now().Add(most)
	for !is() {
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v: %s", most, what)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// pause waits for so long, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// clear ends and removes all of it.
func (w *world) clear() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	if w.director != nil {
		w.director.kill()
	}
	if w.web != nil {
		errs = append(errs, w.web.Close())
		<-w.served
	}
	if w.host != nil {
		errs = append(errs, w.host.clear(ctx))
	}
	if w.nats != nil {
		w.nats.kill()
	}
	if w.disk != nil {
		errs = append(errs, w.disk.close())
	}
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}
