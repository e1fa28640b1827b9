package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"retake/internal/agenttest"
	"retake/internal/testbed"
)

// world is the director's environment in one run.
type world struct {
	fleet            string
	dir              string   // directory of the run's files
	lock             *os.File // locked until this process ends; see removeLeftovers
	token            string
	host             host
	record           *testbed.Record
	model            *model
	provider         *agenttest.Server // provider of the model used by the agent's loop
	providerURL      string            // URL at which the provider serves the case threeFailures
	github           *testbed.GitHub
	lint             *lint // the check on the repository's pull requests
	tools            toolchain
	cache            cache
	agent            string // path of the agent as workers see it
	director, worker string // paths of their programs
	httpListen       string // HTTP address of the director, if any
	otlp             string // collector of traces, if any
}

// dirPrefix is the part of a run directory's name before the fleet.
const dirPrefix = "retake-"

func newFleet() string { return "demo-" + strings.ToLower(rand.Text()[:8]) }

// setUp creates the environment. On error, it removes the parts that it has created.
func setUp(ctx context.Context, o Options) (_ *world, err error) {
	s := &world{
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
	if s.cache, err = cacheDir(s.dir); err != nil {
		return nil, err
	}
	s.record = s.host.Record()
	if err := s.start(ctx, o.programs); err != nil {
		return nil, err
	}
	return s, nil
}

// start finds the programs, starts the stand-ins with which the director and its workers communicate, and writes the
// director's configuration.
func (s *world) start(ctx context.Context, programs string) error {
	if programs == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("demo: find the path of this program: %w", err)
		}
		programs = filepath.Dir(self)
	}
	bin := filepath.Join(s.dir, "bin")
	err := os.Mkdir(bin, 0o755)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if s.director == "" {
		if s.director, err = testbed.DirectorProgram.Find(ctx, programs, bin); err != nil {
			return err
		}
	}
	if s.worker, err = testbed.WorkerProgram.Find(ctx, programs, bin); err != nil {
		return err
	}
	agent, err := agentProgram.Find(ctx, programs, bin)
	if err != nil {
		return err
	}
	if d, ok := s.host.(*local); ok && d.docker != nil {
		d.docker.Worker = s.worker
	}
	if s.agent, err = s.host.Install(ctx, agent); err != nil {
		return err
	}
	gateway, err := s.host.Gateway(ctx)
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

// makeDir creates the run's directory and locks it until this process ends. The lock file records which runtime to
// clean up after a crash.
func makeDir(fleet, runtime string) (string, *os.File, error) {
	unlocked, err := os.MkdirTemp("", "new-"+dirPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("demo: %w", err)
	}
	lock, err := os.Create(filepath.Join(unlocked, "lock"))
	if err == nil {
		_, err = lock.WriteString(runtime)
	}
	// Workers that run as another user must reach their checkouts, but must not list the directory.
	if err == nil && os.Getuid() == 0 {
		err = errors.Join(os.Chmod(unlocked, 0o711), os.Mkdir(filepath.Join(unlocked, "data"), 0o711))
	}
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	dir := filepath.Join(os.TempDir(), dirPrefix+fleet)
	if err == nil {
		err = os.Rename(unlocked, dir) // removeLeftovers must see only locked directories
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("demo: %w", err), os.RemoveAll(unlocked))
	}
	return dir, lock, nil
}

func (s *world) data() string      { return filepath.Join(s.dir, "data") }
func (s *world) checkouts() string { return filepath.Join(s.data(), "tasks", "*", "checkout") }
func (s *world) config() string    { return filepath.Join(s.dir, "config.toml") }
func (s *world) profiles() string  { return filepath.Join(s.dir, "agents.toml") }
func (s *world) page(n int) string {
	return fmt.Sprintf("%s/%s/issues/%d", s.github.URL, repository, n)
}

func (s *world) pullPage(key string) string {
	_, number, _ := strings.Cut(key, "#")
	return fmt.Sprintf("%s/%s/pull/%s", s.github.URL, repository, number)
}

// openGitHub starts the GitHub stand-in with the repository and the issues. labelIssues adds the labels shortly before
// the director starts.
func (s *world) openGitHub(ctx context.Context) (err error) {
	s.github, err = testbed.OpenGitHub(ctx, testbed.GitHubOptions{
		Dir: filepath.Join(s.dir, "git"), Repository: repository, Files: widgetFiles(), Token: s.token,
	})
	if err != nil {
		return err
	}
	s.lint = newLint(s.github.Bare)
	s.github.AddCheckRule(lintName, s.lint.judge)
	for _, t := range issueTexts() {
		s.github.CreateIssue(repository, testbed.Person, t.title, t.body)
	}
	return nil
}

// labelIssues adds the task label to the scenarios' issues, except to the issue that limitRequests offers later.
func (s *world) labelIssues(chosen []scenario) {
	for _, c := range chosen {
		if !c.Limit {
			s.github.AddLabel(c.key(), testbed.Person, testbed.LabelTask)
		}
	}
}

// clear stops the stand-ins and removes the run's workers and files. The director must have ended. The error lists the
// parts that clear could not stop or remove.
func (s *world) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var errs []error
	if s.record != nil {
		_, _ = s.record.Stop() // the record is no longer needed, so a gap does not matter
	}
	if s.github != nil {
		errs = append(errs, s.github.Shutdown())
	}
	if s.model != nil {
		errs = append(errs, s.model.close())
	}
	if s.provider != nil {
		errs = append(errs, s.provider.Close())
	}
	if s.host != nil {
		errs = append(errs, s.host.Clear(ctx), s.host.Close())
	}
	errs = append(errs, os.RemoveAll(s.dir), s.lock.Close())
	return errors.Join(errs...)
}
