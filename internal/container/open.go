package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Options says what runs workers, and which part of it is ours.
type Options struct {
	Runtime string      // for Open: "docker", "process" or "auto"
	Fleet   string      // letters, digits, "_.-"; label on everything created, filter on everything listed
	Owner   string      // Docker: names the installation, for ever; others' containers are not listed, and refused by Open
	Network string      // Docker: name of the workers' network
	Dir     string      // processes: absolute path of a folder for what is known about them; kept between runs
	Log     *zap.Logger // nil: silent
}

// Runtime is what runs workers: *Docker or *Processes.
type Runtime interface {
	EnsureNetwork(ctx context.Context) (gateway string, err error)
	Ensure(ctx context.Context, s Spec) (containerID string, err error)
	Adopt(ctx context.Context, attemptID string) error
	List(ctx context.Context) ([]Status, error)
	EnsureImage(ctx context.Context, image string) error
	Stop(ctx context.Context, attemptID string, grace time.Duration, record Recorder) (Exit, error)
	Watch(ctx context.Context, hint func(Hint)) error
	Workdir(s Spec) string
	Cannot() []string
	Close() error
}

var (
	_ Runtime = (*Docker)(nil)
	_ Runtime = (*Processes)(nil)
)

// choices says which function opens what containers.runtime names.
var choices = map[string]func(context.Context, Options) (Runtime, error){
	"docker": chooseDocker, "process": chooseProcesses, "auto": chooseAny,
}

// Open opens the runtime that o.Runtime names; auto means Docker if an engine answers, and processes otherwise. What the
// chosen one cannot do is said in one warning.
//
// Nobody may be forgotten by a change from one to the other, since a worker that nobody lists goes on beside its own
// successor. So processes that are still there are ended before "docker" begins, and keep "auto" with processes until they are
// done; "process" is refused while containers of the fleet run. Where Docker was used before, "auto" insists on it:
// an engine that is down for a moment must not lay a server open to its agents.
func Open(ctx context.Context, o Options) (Runtime, error) {
	choose, ok := choices[o.Runtime]
	if !ok {
		return nil, refused("open", "runtime %q: want docker, process or auto", o.Runtime)
	}
	if !filepath.IsAbs(o.Dir) {
		return nil, refused("open", "folder for processes %q: want an absolute path", o.Dir)
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return choose(ctx, o)
}

func chooseDocker(ctx context.Context, o Options) (Runtime, error) {
	docker, err := OpenDocker(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(docker.noStrangers(ctx), endProcesses(ctx, o), rememberDocker(o.Dir)); err != nil {
		return nil, errors.Join(err, docker.Close())
	}
	if cannot := docker.Cannot(); len(cannot) > 0 {
		o.Log.Warn("this container engine does not hold every limit", zap.Strings("cannot", cannot))
	}
	return docker, nil
}

func chooseProcesses(ctx context.Context, o Options) (Runtime, error) {
	if docker, err := OpenDocker(ctx, o); err == nil { // else there is nobody to ask, and nobody who could start any
		list, err := docker.List(ctx)
		if err := errors.Join(err, docker.Close()); err != nil {
			return nil, err
		}
		if live := liveOnes(list); len(live) > 0 {
			return nil, &Error{
				Kind: ErrSpec, Doing: "open", Cause: fmt.Errorf("containers of fleet %s still run in Docker (%s)", o.Fleet, strings.Join(live, ", ")),
				Next: `let them finish under containers.runtime = "docker", or remove them (docker rm -f)`,
			}
		}
	}
	return openProcesses(ctx, o, nil)
}

func chooseAny(ctx context.Context, o Options) (Runtime, error) {
	if left, err := leftProcesses(ctx, o); err != nil {
		return nil, err
	} else if len(left) > 0 {
		return openProcesses(ctx, o, fmt.Errorf("processes of an earlier run are still there: %s", strings.Join(left, ", ")))
	}
	docker, err := chooseDocker(ctx, o)
	if err == nil || !errors.Is(err, ErrDaemon) {
		return docker, err
	}
	if _, statErr := os.Stat(filepath.Join(o.Dir, dockerFile)); statErr == nil {
		var e *Error
		if errors.As(err, &e) {
			e.Next += `; Docker ran workers here before, so nothing else is tried: containers.runtime = "process" would run them unconfined`
		}
		return nil, err
	}
	return openProcesses(ctx, o, err)
}

// openProcesses opens that runtime and says what is lost with it.
func openProcesses(ctx context.Context, o Options, why error) (Runtime, error) {
	p, err := OpenProcesses(ctx, o)
	if err != nil {
		return nil, err
	}
	o.Log.Warn("workers run as plain processes, not in containers: for development only",
		zap.Strings("cannot", p.Cannot()), zap.NamedError("reason", why))
	return p, nil
}

// dockerFile in Options.Dir says that Docker ran workers here.
const dockerFile = "docker-was-here"

func rememberDocker(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, dockerFile), nil, 0o600)
	}
	if err != nil {
		return hostFailure("open", err)
	}
	return nil
}

// leftProcesses names this fleet's processes of an earlier run.
func leftProcesses(ctx context.Context, o Options) (names []string, err error) {
	if _, err := os.Stat(o.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	p, err := OpenProcesses(ctx, o)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	list, err := p.List(ctx)
	for _, s := range list {
		names = append(names, s.AttemptID)
	}
	return names, err
}

func endProcesses(ctx context.Context, o Options) error {
	left, err := leftProcesses(ctx, o)
	if err != nil || len(left) == 0 {
		return err
	}
	p, err := OpenProcesses(ctx, o)
	if err != nil {
		return err
	}
	defer p.Close()
	for _, name := range left {
		o.Log.Warn("ending a plain process of an earlier run: workers run in Docker now", zap.String("worker", name))
		if _, err := p.Stop(ctx, name, 0, nil); err != nil {
			return err
		}
	}
	return nil
}

func liveOnes(list []Status) (names []string) {
	for _, s := range list {
		if s.State.Live() {
			names = append(names, s.AttemptID)
		}
	}
	return names
}
