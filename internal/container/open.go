package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Options selects the workers' runtime and the fleet.
type Options struct {
	Runtime string // for Open: "docker" or "process"; package kubernetes opens clusters
	Fleet   string // letters, digits, "_.-"; labels all created objects and filters lists
	// Owner, for Docker, is the permanent name of the installation. Open refuses a fleet with another owner's
	// containers, and List omits them.
	Owner   string
	Network string      // for Docker: name of the workers' network
	OCI     string      // for Docker: OCI runtime of attempts, or empty for the default
	Dir     string      // for processes: absolute path of a persistent directory for their records
	Log     *zap.Logger // may be nil

	SameUser bool // for processes: allow workers that are not isolated from this process and its user's files
	// Hide, for processes without SameUser, lists directories and files that are hidden from workers. A worker still
	// sees its checkout, its directories and its mounts in them. Missing paths are ignored.
	Hide []string
}

// Runtime runs workers. Docker, Processes and package kubernetes implement it.
type Runtime interface {
	EnsureNetwork(ctx context.Context) (gateway string, err error)
	Ensure(ctx context.Context, s Spec) error
	Adopt(ctx context.Context, attemptID string) error
	FollowOutput(ctx context.Context, attemptID string, take func(Printed)) error
	List(ctx context.Context) ([]Status, error)
	Find(ctx context.Context, attemptID string) (s Status, found bool, err error)
	Warm(ctx context.Context)
	EnsureImage(ctx context.Context, image string) error
	Stop(ctx context.Context, attemptID string, grace time.Duration, record Recorder) (Exit, error)
	Watch(ctx context.Context, changed func()) error
	Workdir(s Spec) string
	Close() error
}

var (
	_ Runtime = (*Docker)(nil)
	_ Runtime = (*Processes)(nil)
)

// Open opens the runtime selected by o.Runtime, and logs its limitations in one warning. "auto" is deprecated and means
// "docker", because plain processes must be configured explicitly.
//
// Workers of the other runtime must not continue unnoticed while their successors run. Open therefore ends leftover
// processes before it returns Docker, and refuses "process" while containers of the fleet run.
func Open(ctx context.Context, o Options) (Runtime, error) {
	if !filepath.IsAbs(o.Dir) {
		return nil, refused("open", "process directory %q: want an absolute path", o.Dir)
	}
	o.Log = cmp.Or(o.Log, zap.NewNop())
	switch o.Runtime {
	case "auto":
		o.Log.Warn(
			"containers.runtime = \"auto\" now means \"docker\": set \"docker\", or \"process\" to run work that you " +
				"trust as plain processes")
		return chooseDocker(ctx, o)
	case "docker":
		return chooseDocker(ctx, o)
	case "process":
		return chooseProcesses(ctx, o)
	}
	return nil, refused("open", "runtime %q: want docker or process", o.Runtime)
}

func chooseDocker(ctx context.Context, o Options) (Runtime, error) {
	docker, err := OpenDocker(ctx, o)
	if e, ok := errors.AsType[*Error](err); ok && errors.Is(err, ErrDaemon) {
		e.Next += `; to run work that you trust without Docker, set containers.runtime = "process"`
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(docker.refuseForeign(ctx), endProcesses(ctx, o)); err != nil {
		return nil, errors.Join(err, docker.Close())
	}
	if len(docker.cannot) > 0 {
		o.Log.Warn("container engine cannot enforce all limits", zap.Strings("cannot", docker.cannot))
	}
	return docker, nil
}

// LeaveMachine ensures that all of the fleet's workers on this machine have ended, before its attempts run elsewhere.
// Like Open, it refuses running containers and ends plain processes.
func LeaveMachine(ctx context.Context, o Options) error {
	o.Log = cmp.Or(o.Log, zap.NewNop())
	return errors.Join(refuseContainers(ctx, o), endProcesses(ctx, o))
}

// refuseContainers fails while containers of the fleet run in Docker.
func refuseContainers(ctx context.Context, o Options) error {
	o.OCI = "" // a missing OCI runtime must not prevent the check
	docker, err := OpenDocker(ctx, o)
	if err != nil { // without a daemon, containers cannot run
		return nil //nolint:nilerr // on purpose
	}
	list, err := docker.List(ctx)
	if err := errors.Join(err, docker.Close()); err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(s Status) bool { return !s.State.Live() })
	if len(list) == 0 {
		return nil
	}
	return &Error{
		Kind: ErrSpec, Doing: "open", Cause: fmt.Errorf("containers of fleet %s are still running in Docker (%s)",
			o.Fleet,
			Names(list)),
		Next: `let them finish under containers.runtime = "docker", or remove them (docker rm -f)`,
	}
}

func chooseProcesses(ctx context.Context, o Options) (Runtime, error) {
	if err := refuseContainers(ctx, o); err != nil {
		return nil, err
	}
	p, err := OpenProcesses(ctx, o)
	if err != nil {
		return nil, err
	}
	o.Log.Warn("running workers as plain processes without containers, for development only",
		zap.Strings("cannot", CannotConfine(o.SameUser)))
	return p, nil
}

// earlierProcesses calls f with this fleet's processes from an earlier run, if any exist.
func earlierProcesses(ctx context.Context, o Options, f func(p *Processes, left []Status) error) error {
	if _, err := os.Stat(o.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	p, err := readProcesses(o)
	if err != nil {
		return err
	}
	defer p.Close()
	left, err := p.List(ctx)
	if err != nil || len(left) == 0 {
		return err
	}
	return f(p, left)
}

func endProcesses(ctx context.Context, o Options) error {
	return earlierProcesses(ctx, o, func(p *Processes, left []Status) error {
		for _, s := range left {
			o.Log.Warn("stopping a plain process from an earlier run, because workers now run elsewhere",
				zap.String("worker", s.AttemptID))
			if _, err := p.Stop(ctx, s.AttemptID, 0, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// Names joins attempt ids for messages.
func Names(list []Status) string {
	var ids []string
	for _, s := range list {
		ids = append(ids, s.AttemptID)
	}
	return strings.Join(ids, ", ")
}
