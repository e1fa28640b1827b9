package demo

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
	"syscall"
	"time"

	"retake/internal/agenttest"
	"retake/internal/github/githubtest"
)

// bot is the director's login on the stand-in, person the one who owns the issues and acts on the pages.
const (
	bot    = "retake-bot"
	person = "octocat"
)

// testbed is everything that a run needs besides the director.
type testbed struct {
	fleet            string
	dir              string   // all of the run's files
	lock             *os.File // held while this process lives; see removeLeftovers
	token            string
	host             host
	containerLog     *containerLog
	model            *model
	provider         *agenttest.Server // of the model that the agent's loop asks
	providerURL      string            // of the case that it meets
	github           *githubtest.Server
	lint             *lint // the check of its pull requests
	web              *http.Server
	served           chan struct{} // closed when web has ended
	url              string        // of the stand-in
	tools            toolchain
	cache            cache
	user             string // uid:gid of the workers
	agent            string // its path where workers are
	director, worker string // their programs
	httpListen       string // of the director
	otlp             string // collector of traces; empty: none
}

// dirPrefix begins the name of a run's folder; its fleet follows.
const dirPrefix = "retake-"

func newFleet() string { return "demo-" + strings.ToLower(rand.Text()[:8]) }

// setUp makes the testbed. What was made before an error is removed.
func setUp(ctx context.Context, o Options) (_ *testbed, err error) {
	s := &testbed{
		fleet: o.fleet, token: "demo-" + rand.Text(), director: o.director, httpListen: o.HTTPListen,
		otlp: o.OTLP,
	}
	if s.fleet == "" {
		s.fleet = newFleet()
	}
	if s.dir, s.lock, err = makeDir(s.fleet, o.Runtime); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.clear(context.WithoutCancel(ctx)))
		}
	}()
	if s.host, err = openHost(ctx, o.Runtime, s.fleet, s.dir); err != nil {
		return nil, err
	}
	if s.tools, err = findToolchain(ctx); err != nil {
		return nil, err
	}
	uid, gid := workerUser()
	s.user = fmt.Sprintf("%d:%d", uid, gid)
	if s.cache, err = cacheDir(uid, gid, s.dir); err != nil {
		return nil, err
	}
	s.containerLog = s.host.recordEvents()
	if err := s.start(ctx, o.programs); err != nil {
		return nil, err
	}
	return s, nil
}

// start finds the programs, and opens what the director and its workers talk to.
func (s *testbed) start(ctx context.Context, programs string) error {
	if programs == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("demo: own path: %w", err)
		}
		programs = filepath.Dir(self)
	}
	bin := filepath.Join(s.dir, "bin")
	err := os.Mkdir(bin, 0o755)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if s.director == "" {
		if s.director, err = binary(ctx, directorProgram, programs, bin); err != nil {
			return err
		}
	}
	if s.worker, err = binary(ctx, workerProgram, programs, bin); err != nil {
		return err
	}
	agent, err := binary(ctx, agentProgram, programs, bin)
	if err != nil {
		return err
	}
	if s.agent, err = s.host.installAgent(ctx, agent); err != nil {
		return err
	}
	gateway, err := s.host.gateway(ctx)
	if err != nil {
		return err
	}
	resets := 0
	for _, c := range scenarios {
		resets += c.Resets
	}
	if s.model, err = openModel(ctx, gateway, resets); err != nil {
		return err
	}
	if s.provider, err = openProvider(ctx, gateway); err != nil {
		return err
	}
	s.providerURL = s.provider.Base(threeFailures, "")
	if err := s.openGitHub(ctx); err != nil {
		return err
	}
	return s.writeConfig()
}

// makeDir makes the run's folder, and locks it for the life of this process. The lock file names the runtime to clear.
func makeDir(fleet, runtime string) (string, *os.File, error) {
	unlocked, err := os.MkdirTemp("", "new-"+dirPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("demo: %w", err)
	}
	lock, err := os.Create(filepath.Join(unlocked, "lock"))
	if err == nil {
		_, err = lock.WriteString(runtime)
	}
	// workers of another user pass through to their checkouts; nobody else can list it
	if err == nil && os.Getuid() == 0 {
		err = errors.Join(os.Chmod(unlocked, 0o711), os.Mkdir(filepath.Join(unlocked, "data"), 0o711))
	}
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	dir := filepath.Join(os.TempDir(), dirPrefix+fleet)
	if err == nil {
		err = os.Rename(unlocked, dir) // removeLeftovers sees locked folders only
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("demo: %w", err), os.RemoveAll(unlocked))
	}
	return dir, lock, nil
}

func (s *testbed) data() string         { return filepath.Join(s.dir, "data") }
func (s *testbed) checkouts() string    { return filepath.Join(s.data(), "tasks", "*", "checkout") }
func (s *testbed) config() string       { return filepath.Join(s.dir, "config.toml") }
func (s *testbed) profiles() string     { return filepath.Join(s.dir, "agents.toml") }
func (s *testbed) repositories() string { return filepath.Join(s.dir, "git") }
func (s *testbed) bare() string         { return filepath.Join(s.repositories(), repository+".git") }

func (s *testbed) page(n int) string { return fmt.Sprintf("%s/%s/issues/%d", s.url, repository, n) }

func (s *testbed) pullPage(key string) string {
	_, number, _ := strings.Cut(key, "#")
	return fmt.Sprintf("%s/%s/pull/%s", s.url, repository, number)
}

// openGitHub starts the stand-in with repository and issues. The labels come when the director is about to
// start: see labelIssues.
func (s *testbed) openGitHub(ctx context.Context) error {
	seed := filepath.Join(s.dir, "seed")
	if err := unpack(seed); err != nil {
		return err
	}
	s.github = githubtest.New(githubtest.Options{DataDir: s.repositories(), Person: person})
	s.github.AddUser(bot, s.token)
	if err := s.github.AddRepo(repository, seed, map[string]string{bot: "write", person: "admin"}); err != nil {
		return err
	}
	s.lint = newLint(s.bare())
	s.github.AddCheckRule(lintName, s.lint.judge)
	for _, t := range issueTexts() {
		s.github.CreateIssue(repository, person, t.title, t.body)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("demo: stand-in for GitHub: %w", err)
	}
	s.url = "http://" + listener.Addr().String()
	s.web = &http.Server{Handler: s.github, ReadHeaderTimeout: 10 * time.Second}
	s.served = make(chan struct{})
	go func() {
		defer close(s.served)
		_ = s.web.Serve(listener) // until clear closes it
	}()
	return nil
}

// labelIssues labels the issues of the scenarios: from here on they are work. One is offered later: see limitRequests.
func (s *testbed) labelIssues(chosen []scenario) {
	for _, c := range chosen {
		if !c.Limit {
			s.github.AddLabel(c.key(), person, labelTask)
		}
	}
}

// clear removes all of it; the director must have ended. It reports what it could not remove.
func (s *testbed) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var errs []error
	if s.containerLog != nil {
		_, _ = s.containerLog.stop() // a gap matters to those who read the record
	}
	if s.web != nil {
		errs = append(errs, s.web.Close())
		<-s.served
	}
	if s.model != nil {
		errs = append(errs, s.model.close())
	}
	if s.provider != nil {
		errs = append(errs, s.provider.Close())
	}
	if s.host != nil {
		errs = append(errs, s.host.clear(ctx), s.host.close())
	}
	errs = append(errs, os.RemoveAll(s.dir), s.lock.Close())
	return errors.Join(errs...)
}
