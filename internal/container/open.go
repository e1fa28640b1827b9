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

// Options choose what runs workers, and which part of it is ours.
type Options struct {
	Runtime string // for Open: "docker" or "process"; a cluster is opened by package kubernetes
	Fleet   string // letters, digits, "_.-"; label on everything created, filter on everything listed
	// Docker: names the installation, for ever; others' containers are not listed, and refused by Open
	Owner   string
	Network string      // Docker: name of the workers' network
	OCI     string      // Docker: which of the engine's runtimes attempts run in; empty: its default
	Dir     string      // processes: absolute path of a folder for what is known about them; kept between runs
	Log     *zap.Logger // nil: silent

	SameUser bool // processes: they may run as this process's user, and see what it may
	// processes, unless SameUser: folders and files of which they see only what is theirs; those that do not
	// exist are left out
	Hide []string
}

// Runtime is what runs workers: *Docker, *Processes, or package kubernetes.
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

// Open opens the runtime that o.Runtime names; "auto", which is no longer offered, is "docker": plain processes
// have to be asked for. One warning lists what the chosen one cannot do.
//
// Nobody may be forgotten by a change from one to the other, since a worker that nobody lists goes on beside
// its own successor. So processes that are still there are ended before "docker" begins; "process" is refused
// while containers of the fleet run.
func Open(ctx context.Context, o Options) (Runtime, error) {
	if !filepath.IsAbs(o.Dir) {
		return nil, refused("open", "folder for processes %q: want an absolute path", o.Dir)
	}
	o.Log = cmp.Or(o.Log, zap.NewNop())
	switch o.Runtime {
	case "auto":
		o.Log.Warn(
			`containers.runtime = "auto" is "docker" now: write that, or "process" for plain processes and work that you trust`)
		return chooseDocker(ctx, o)
	case "docker":
		return chooseDocker(ctx, o)
	case "process":
		return chooseProcesses(ctx, o)
	}
	return nil, refused("open", "runtime %q: want docker or process here", o.Runtime)
}

func chooseDocker(ctx context.Context, o Options) (Runtime, error) {
	docker, err := OpenDocker(ctx, o)
	if e, ok := errors.AsType[*Error](err); ok && errors.Is(err, ErrDaemon) {
		e.Next += `; without Docker, for work that you trust: containers.runtime = "process"`
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(docker.refuseForeign(ctx), endProcesses(ctx, o)); err != nil {
		return nil, errors.Join(err, docker.Close())
	}
	if len(docker.cannot) > 0 {
		o.Log.Warn("this container engine cannot enforce every limit", zap.Strings("cannot", docker.cannot))
	}
	return docker, nil
}

// LeaveMachine makes sure that nothing of the fleet runs on this machine any more, before its attempts run
// elsewhere: containers are refused, as by Open, plain processes are ended.
func LeaveMachine(ctx context.Context, o Options) error {
	o.Log = cmp.Or(o.Log, zap.NewNop())
	return errors.Join(refuseContainers(ctx, o), endProcesses(ctx, o))
}

// refuseContainers refuses to go on while containers of the fleet run in Docker.
func refuseContainers(ctx context.Context, o Options) error {
	o.OCI = "" // nothing is started in it
	docker, err := OpenDocker(ctx, o)
	if err != nil { // there is nobody to ask, and nobody who could start any
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
		Kind: ErrSpec, Doing: "open", Cause: fmt.Errorf("containers of fleet %s still run in Docker (%s)", o.Fleet,
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
	o.Log.Warn("workers run as plain processes, not in containers: for development only",
		zap.Strings("cannot", CannotConfine(o.SameUser)))
	return p, nil
}

// earlierProcesses calls f with this fleet's processes of an earlier run, if there are any.
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
			o.Log.Warn("ending a plain process of an earlier run: workers run elsewhere now",
				zap.String("worker", s.AttemptID))
			if _, err := p.Stop(ctx, s.AttemptID, 0, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// Names are the attempt ids of a list, for people.
func Names(list []Status) string {
	var ids []string
	for _, s := range list {
		ids = append(ids, s.AttemptID)
	}
	return strings.Join(ids, ", ")
}
