package effects

import (
	"context"
	"maps"
	"slices"
	"time"

	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director/inforce"
	"retake/internal/fsm"
	"retake/internal/workspace"
)

// Specs describes the containers of attempts.
type Specs struct {
	Workspace    *workspace.Workspaces
	Environ      []string // environment variables of workers: "NAME=value"
	WorkerBinary string
	LifeAfter    time.Duration // added to an attempt's maximum lifetime to get the maximum lifetime of its container
}

// Of returns the specification of an attempt's container. checkout is the path of the mounted checkout.
func (s *Specs) Of(in *inforce.Setup, e fsm.Effect, checkout string) container.Spec {
	c := in.Containers
	spec := container.Spec{
		AttemptID: e.Worker, Task: string(e.Task), Image: c.Image, Workdir: c.Workdir, Checkout: checkout,
		Entrypoint: []string{container.WorkerPath, "--plan", "-"}, WorkerBinary: s.WorkerBinary,
		Memory: c.MemoryBytes(), CPUs: c.CPUs, Pids: int64(c.PIDs), User: c.User, Env: s.Environ,
		ReadOnly: c.ReadOnly, Scratch: slices.Clone(c.Scratch), Life: watchdogOf(e, in) + s.LifeAfter,
	}
	if c.Runtime == "process" { // a plain process uses the machine's directories
		spec.Scratch = nil
	}
	for _, m := range c.ParsedMounts() {
		spec.Mounts = append(spec.Mounts, container.Mount(m))
	}
	return spec
}

// Clean returns the specification for an attempt that only validates. Its container must not contain any other files
// written by an agent, so it mounts a copy of the work to deliver instead of the checkout. An empty directory replaces
// each mount that workers can write to. The container gets only the variables of containers.env, not the director's
// environment.
func (s *Specs) Clean(ctx context.Context, in *inforce.Setup, e fsm.Effect) (container.Spec, error) {
	copied, _, err := s.Workspace.Validation(ctx, e.Nonce, e.Worker)
	if err != nil {
		return container.Spec{}, err
	}
	spec := s.Of(in, e, copied)
	spec.Env, spec.Mounts = nil, nil
	for _, name := range slices.Sorted(maps.Keys(in.Containers.Env)) {
		spec.Env = append(spec.Env, name+"="+in.Containers.Env[name])
	}
	mounts := in.Containers.ParsedMounts()
	for _, m := range mounts {
		if slices.ContainsFunc(mounts, func(other config.Mount) bool {
			return !other.ReadOnly && container.Mount(m).SharesFiles(container.Mount(other))
		}) {
			spec.Scratch = append(spec.Scratch, m.Target)
		} else {
			spec.Mounts = append(spec.Mounts, container.Mount(m))
		}
	}
	return spec, nil
}

// watchdogOf returns the attempt's maximum lifetime, as decided when it began. If the journal is from an older version
// that does not record it, watchdogOf returns the configured time.
func watchdogOf(e fsm.Effect, in *inforce.Setup) time.Duration {
	if life := e.Start.WatchdogAt.Sub(e.At); !e.At.IsZero() && life > 0 {
		return life
	}
	return in.Timeouts.WorkerWatchdog
}
