package demo

import (
	"context"
	"fmt"

	retake "retake/internal/container"
)

// The runtimes, as containers.runtime has them.
const (
	runtimeDocker     = "docker"
	runtimeKubernetes = "kubernetes"
	runtimeProcess    = "process"
)

// host is what runs the workers as the demo uses it, beside the director: to install the agent, to inject
// faults, to look, and to clean up. Everything that belongs to a run is known by its fleet.
type host interface {
	// installAgent puts the agent where workers find it, and returns its path there.
	installAgent(ctx context.Context, agent string) (path string, err error)
	// gateway is the address at which workers reach this machine.
	gateway(ctx context.Context) (string, error)
	// settings are the containers section of the director's configuration, without env.
	settings(s *testbed) string
	// sections are what else it needs in the configuration.
	sections(s *testbed) (string, error)
	// env are variables of the workers that are this host's only.
	env(s *testbed) map[string]string
	recordEvents() *containerLog
	// keeps reports whether a file that an attempt has made outlives its worker.
	keeps(s *testbed, file string) (bool, error)
	inject(ctx context.Context, attempt string, h fault) error
	// workers lists those of the run, running or not.
	workers(ctx context.Context) ([]string, error)
	// clear removes everything of the run; its error names what is left.
	clear(ctx context.Context) error
	close() error
}

// hosts opens a host for a run with this fleet, whose files are in dir.
var hosts = map[string]func(ctx context.Context, fleet, dir string) (host, error){
	runtimeDocker:     func(ctx context.Context, fleet, _ string) (host, error) { return openEngine(ctx, fleet) },
	runtimeKubernetes: func(_ context.Context, fleet, dir string) (host, error) { return openCluster(fleet, dir) },
	runtimeProcess: func(ctx context.Context, fleet, dir string) (host, error) {
		return openProcesses(ctx, fleet, processesDir(dir))
	},
}

func openHost(ctx context.Context, runtime, fleet, dir string) (host, error) {
	if err := checkRuntime(runtime); err != nil {
		return nil, err
	}
	return hosts[runtime](ctx, fleet, dir)
}

// whatIsHere is the runtime that this machine has, and why it is not Docker.
func whatIsHere(ctx context.Context) (runtime, without string) {
	d, err := retake.OpenDocker(ctx, retake.Options{Fleet: "demo", Network: "demo"})
	if err != nil {
		return runtimeProcess, err.Error()
	}
	_ = d.Close()
	return runtimeDocker, ""
}

func checkRuntime(runtime string) error {
	if _, ok := hosts[runtime]; !ok {
		return fmt.Errorf("demo: runtime %q: want %s, %s or %s", runtime, runtimeDocker, runtimeKubernetes,
			runtimeProcess)
	}
	return nil
}
