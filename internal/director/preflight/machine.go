// Package preflight connects the adapters to the checks of package doctor.
package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/director/disk"
	"retake/internal/director/engine"
	"retake/internal/director/lead"
	"retake/internal/director/loop"
	"retake/internal/director/offline"
	"retake/internal/director/operator"
	"retake/internal/director/restore"
	"retake/internal/doctor"
	"retake/internal/github"
	"retake/internal/github/api"
	"retake/internal/github/tracker"
	"retake/internal/workspace"
)

// Options configure Connect.
type Options struct {
	Config config.Config
	Token  func(context.Context) (string, error) // GitHub's token
	Login  func(context.Context) (string, error) // login of the token's account; nil asks GitHub
	// Rights returns the permissions of the GitHub App. It is nil if the director does not use an App.
	Rights       func(context.Context) (map[string]string, error)
	WorkerBinary string            // default: the file "worker" in this program's directory
	Transport    http.RoundTripper // to GitHub; nil means the default transport

	volumes bool // a trial may create volumes by mounting them
}

// Connect connects the adapters to the checks of `director doctor`. The GitHub client cannot write, trial containers
// belong to a separate fleet, and the data directory stays unchanged, except for temporary files. The caller sets the
// other fields of World.
func Connect(o Options, w doctor.World) doctor.World {
	p := preflight{o}
	w.Config, w.Machine = o.Config, p
	w.GitHub, w.Engine = p.github, p.engine
	return w
}

type preflight struct{ o Options }

var _ doctor.Machine = preflight{}

// Now returns the current time.
func (preflight) Now() time.Time { return time.Now() }

// Programs returns the missing programs. It searches path as plain processes do, or the director's PATH if path is
// empty.
func (preflight) Programs(path string, names []string) (missing []string) {
	if path != "" {
		return container.MissingPrograms(path, names)
	}
	return slices.DeleteFunc(slices.Clone(names),
		func(name string) bool { _, err := exec.LookPath(name); return err == nil })
}

// Worker returns the worker binary that the director would use.
func (p preflight) Worker() (string, error) { return engine.FindWorker(p.o.WorkerBinary) }

// Disk returns the disk of a directory or, if that does not exist, of its nearest existing parent.
func (p preflight) Disk(dir string) (doctor.Disk, error) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return doctor.Disk{}, err
	}
	for {
		u, err := disk.UseOf(at)
		if errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
			at = filepath.Dir(at)
			continue
		}
		if err != nil {
			return doctor.Disk{}, fmt.Errorf("disk holding %s: %w", at, err)
		}
		mark := p.o.Config.Director.DiskWatermark
		d := doctor.Disk{
			Path: at, FreeBytes: u[disk.Bytes].Free, FreeFiles: u[disk.Files].Free, UsedFiles: u[disk.Files].Used,
			UsedPercent: max(u.Percent(disk.Bytes), u.Percent(disk.Files)),
		}
		for kind := range u {
			d.Full = d.Full || mark > 0 && u[kind].Used+u[kind].Free > 0 && u.Room(kind, mark) <= 0
		}
		return d, nil
	}
}

// Listen checks that the address is free, by listening briefly.
func (preflight) Listen(ctx context.Context, address string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		if e, ok := errors.AsType[*net.OpError](err); ok {
			err = e.Err
		}
		return err
	}
	return l.Close()
}

// Running asks the director for its health over the operator's socket. If no director listens there, the lock shows
// whether a process is using the data directory.
func (p preflight) Running(ctx context.Context) (string, error) {
	dir := p.o.Config.Director.DataDir
	h, err := operator.AskHealth(ctx, dir)
	switch {
	case err == nil && !h.OK:
		return "", fmt.Errorf("a director is running with this data_dir, but is unhealthy: %s", h)
	case err == nil:
		return h.String(), nil
	case !errors.Is(err, operator.ErrNotThere):
		return "", err
	}
	var lock lead.Lock
	locked := lock.TakeToRead(ctx, dir)
	_ = lock.Close()
	switch {
	case errors.Is(locked, lead.ErrLocked):
		return "", fmt.Errorf("a director is running with this data_dir, but does not respond: %w", err)
	case locked != nil:
		return "", fmt.Errorf("cannot check for a running director, which may belong to "+
			"another user: %w",
			locked)
	}
	return "", nil
}

// Journal verifies the journal like `director journal verify`.
func (p preflight) Journal(ctx context.Context) (string, error) {
	if dir := filepath.Join(p.o.Config.Director.DataDir, "bus"); p.o.Config.AgentBus.URL == "" {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return "no journal exists: the first start creates one", nil
		}
	}
	v, err := offline.Verify(ctx, p.o.Config)
	switch {
	case err != nil:
		return "", err
	case len(v.Damages) > 0:
		return "", fmt.Errorf("the journal is damaged in %d places: %w", len(v.Damages), v.Damages[0])
	}
	return fmt.Sprintf("undamaged: %d batches", v.Batches), nil
}

func (p preflight) Quota(bytes int64) error { return workspace.CheckQuota(bytes) }

// Fleet returns the error with which the director would reject the fleet at startup.
func (p preflight) Fleet() error {
	c := p.o.Config
	f := restore.FleetFile{Dir: c.Director.DataDir, Fleet: c.Director.Fleet, Log: zap.NewNop()}
	return f.Check()
}

func (p preflight) github(ctx context.Context) (doctor.GitHub, error) {
	client, token, err := GitHub(ctx, p.o)
	if err != nil {
		return nil, err
	}
	return githubSeen{client, p.o, kindOfToken(p.o.Config, token)}, nil
}

// GitHub returns a client for reading, and its token.
func GitHub(ctx context.Context, o Options) (*github.Client, string, error) {
	c := o.Config
	token, err := o.Token(ctx)
	if err != nil {
		return nil, "", err
	}
	client, err := github.New(github.Options{
		Options: api.Options{
			BaseURL:          c.GitHub.APIURL,
			Token:            o.Token,
			Login:            o.Login,
			MinBetweenWrites: c.RateLimits.GitHub.MinBetweenWrites,
			MaxConcurrent:    c.RateLimits.GitHub.MaxConcurrentRequests,
			CooldownDefault:  c.RateLimits.GitHub.CooldownOnRateLimit,
			Transport:        cmp.Or(o.Transport, http.DefaultTransport),
			Log:              zap.NewNop(),
		},
		Fleet:          c.Director.Fleet,
		Labels:         tracker.Labels(c.GitHub.Labels),
		TrustedAuthors: c.GitHub.TrustedAuthors,
		Secrets:        []string{token},
	})
	return client, token, err
}

type githubSeen struct {
	*github.Client
	o    Options
	kind string
}

var _ doctor.GitHub = githubSeen{}

// engine opens the engine that the director would use, without leaving traces.
func (p preflight) engine(ctx context.Context) (doctor.Engine, error) {
	c := p.o.Config
	if c.Containers.Runtime == "process" {
		if err := container.CanKeepApart(); err != nil && !c.Containers.SameUser {
			return nil, err
		}
		return processesSeen{sameUser: c.Containers.SameUser}, nil
	}
	if c.Containers.Runtime == config.OnKubernetes {
		return p.clusterSeen(ctx)
	}
	docker, err := p.docker(ctx, c.Containers.Network, loop.NewNonce())
	if err != nil {
		return nil, err
	}
	// A trial that was killed leaves objects behind. They are harmless, so ignore errors: the next trial tries again.
	_, _ = docker.RemoveLeftovers(ctx, trialFleet, leftoverAge)
	return &dockerSeen{Docker: docker, p: p}, nil
}

// docker opens the engine under a separate fleet, so that a director does not mistake the trial's containers for
// attempts.
func (p preflight) docker(ctx context.Context, network, nonce string) (*container.Docker, error) {
	return container.OpenDocker(ctx, container.Options{
		Fleet: trialFleet + nonce, Owner: trialFleet + nonce,
		Network: network, OCI: p.o.Config.Containers.OCIRuntime,
	})
}

// trialFleet is the prefix of the fleets of trials.
const trialFleet = "doctor-"

// leftoverAge exceeds the duration of a trial, so that a doctor does not interrupt another doctor's trial.
const leftoverAge = 30 * time.Minute

// processesSeen represents plain processes, which do not require inspection.
type processesSeen struct {
	doctor.Engine
	sameUser bool
}

// Name returns the engine's name.
func (processesSeen) Name() string { return "plain processes" }

// Confines returns false, because workers run without containers.
func (processesSeen) Confines() bool { return false }

// Cannot lists what plain processes do not enforce.
func (p processesSeen) Cannot() []string { return container.CannotConfine(p.sameUser) }

// Close does nothing.
func (processesSeen) Close() error { return nil }
