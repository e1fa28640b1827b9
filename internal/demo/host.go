package demo

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"

	retake "retake/internal/container"
	"retake/internal/testbed"
)

// runtimeKubernetes is the only runtime that package testbed does not support.
const runtimeKubernetes = "kubernetes"

// host gives the demo access to the workers without the director. It installs the agent, injects faults, observes the
// workers and cleans up. All objects that a run creates carry the fleet's name.
type host interface {
	// See testbed.Host for these methods.
	Install(ctx context.Context, agent string) (path string, err error)
	Gateway(ctx context.Context) (string, error)
	Workers(ctx context.Context) ([]testbed.Worker, error)
	Record() *testbed.Record
	Kill(ctx context.Context, attempt string) error
	Pause(ctx context.Context, attempt string) error
	Clear(ctx context.Context) error
	Close() error

	// settings returns the containers section of the director's configuration, without env.
	settings(s *world) string
	// sections returns further sections for the configuration.
	sections(s *world) (string, error)
	// env returns the variables that workers need only on this host.
	env(s *world) map[string]string
	// keeps reports whether a file in an attempt's checkout would survive the end of its worker.
	keeps(s *world, file string) (bool, error)
}

// local runs workers as containers or processes on this machine.
type local struct {
	testbed.Host
	docker *testbed.Docker // nil for processes
}

// hosts maps a runtime to the function that opens its host. dir is the directory of the run's files.
var hosts = map[string]func(ctx context.Context, fleet, dir string) (host, error){
	testbed.RuntimeDocker: func(ctx context.Context, fleet, _ string) (host, error) {
		d, err := testbed.OpenDocker(ctx, fleet)
		return &local{d, d}, err
	},
	testbed.RuntimeProcess: func(_ context.Context, fleet, dir string) (host, error) {
		return &local{Host: &testbed.Processes{
			Dir: filepath.Join(dir, "data", "processes"), Agent: filepath.Join(dir, "demo-agent"), Fleet: fleet,
		}}, nil
	},
	runtimeKubernetes: func(_ context.Context, fleet, dir string) (host, error) { return openCluster(fleet, dir) },
}

func openHost(ctx context.Context, runtime, fleet, dir string) (host, error) {
	if err := checkRuntime(runtime); err != nil {
		return nil, err
	}
	return hosts[runtime](ctx, fleet, dir)
}

// whatIsHere returns Docker if this machine has it, or else plain processes. without explains why Docker cannot be
// used.
func whatIsHere(ctx context.Context) (runtime, without string) {
	d, err := retake.OpenDocker(ctx, retake.Options{Fleet: "demo", Network: "demo"})
	if err != nil {
		return testbed.RuntimeProcess, err.Error()
	}
	_ = d.Close()
	return testbed.RuntimeDocker, ""
}

func checkRuntime(runtime string) error {
	if _, ok := hosts[runtime]; !ok {
		return fmt.Errorf("demo: runtime %q: want %s, %s or %s", runtime, testbed.RuntimeDocker, runtimeKubernetes,
			testbed.RuntimeProcess)
	}
	return nil
}

// memoryLimit is enough for go test, and low enough that a leaking agent soon exceeds it.
const memoryLimit = "1GiB"

func (l *local) settings(s *world) string {
	if l.docker == nil {
		return l.Settings() + fmt.Sprintf("mounts = [%s]\n", s.mounts(s.cache.dir))
	}
	return l.Settings() + fmt.Sprintf("memory = %q\ncpus = 1.0\nmounts = [%s]\nreachable = [%q, %q]\n", memoryLimit,
		s.mounts("/cache"), hostOf(s.model.url), hostOf(s.providerURL))
}

func (l *local) sections(*world) (string, error) { return "", nil }

// hostOf returns the host and port of a stand-in's URL, for the list of addresses that workers may reach.
func hostOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return ""
	}
	return u.Host
}

// env sets HOME, because the image has no home directory. For plain processes, the runtime sets the home and
// temporary directories.
func (l *local) env(s *world) map[string]string {
	if l.docker == nil {
		return map[string]string{"GOCACHE": s.cache.dir}
	}
	return map[string]string{"HOME": "/tmp", "GOCACHE": "/cache"}
}

func (l *local) keeps(s *world, file string) (bool, error) { return inCheckouts(s.checkouts(), file) }
