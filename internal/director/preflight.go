package director

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/container"
	inside "retake/internal/container/look"
	"retake/internal/director/disk"
	"retake/internal/director/lead"
	"retake/internal/director/loop"
	"retake/internal/director/operator"
	"retake/internal/doctor"
	"retake/internal/github"
	"retake/internal/workspace"
)

// Preflight connects the adapters to the checks of `director doctor`: GitHub through a client that may not write,
// Docker apart from all fleets, and the data directory unchanged. The caller sets World's other fields.
func Preflight(o Options, w doctor.World) doctor.World {
	o.Log = cmp.Or(o.Log, zap.NewNop())
	p := preflight{o}
	w.Config, w.Machine = o.Config, p
	w.GitHub, w.Engine = p.github, p.engine
	return w
}

type preflight struct{ o Options }

var _ doctor.Machine = preflight{}

// Now returns the current time.
func (preflight) Now() time.Time { return time.Now() }

// Programs returns the missing programs. It searches path like plain processes do, or the director's own path if
// path is empty.
func (preflight) Programs(path string, names []string) (missing []string) {
	if path != "" {
		return container.MissingPrograms(path, names)
	}
	return slices.DeleteFunc(slices.Clone(names),
		func(name string) bool { _, err := exec.LookPath(name); return err == nil })
}

// Worker returns the worker binary that a start would use.
func (p preflight) Worker() (string, error) { return FindWorker(p.o.WorkerBinary) }

// Disk returns the disk of a directory, or of its nearest existing parent.
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
			return doctor.Disk{}, fmt.Errorf("disk of %s: %w", at, err)
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

// Listen checks that the address is free by listening briefly.
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

// Running asks over the operator's socket. Without an answer, the lock shows whether a process uses the data
// directory.
func (p preflight) Running(ctx context.Context) (string, error) {
	dir := p.o.Config.Director.DataDir
	h, err := operator.AskHealth(ctx, dir)
	switch {
	case err == nil && !h.OK:
		return "", fmt.Errorf("one runs with this data_dir, and is not well: %s", h)
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
		return "", fmt.Errorf("one runs with this data_dir, and does not answer: %w", err)
	case locked != nil:
		return "", fmt.Errorf("whether one runs cannot be told, perhaps because this is not the director's user: %w",
			locked)
	}
	return "", nil
}

// Journal verifies the journal like `director journal verify`.
func (p preflight) Journal(ctx context.Context) (string, error) {
	if dir := filepath.Join(p.o.Config.Director.DataDir, "bus"); p.o.Config.AgentBus.URL == "" {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return "none yet: the first start begins one", nil
		}
	}
	v, err := VerifyJournal(ctx, p.o.Config)
	switch {
	case err != nil:
		return "", err
	case len(v.Damages) > 0:
		return "", fmt.Errorf("the journal is damaged in %d places: %w", len(v.Damages), v.Damages[0])
	}
	return fmt.Sprintf("whole: %d batches", v.Batches), nil
}

func (p preflight) Quota(bytes int64) error { return workspace.CheckQuota(bytes) }

// Fleet returns the error with which a start would refuse the fleet.
func (p preflight) Fleet() error {
	d := &daemon{config: p.o.Config, log: zap.NewNop()}
	return d.fleetFile().Check()
}

// github opens a client that may not write.
func (p preflight) github(ctx context.Context) (doctor.GitHub, error) {
	c := p.o.Config
	token, err := p.o.Token(ctx)
	if err != nil {
		return nil, err
	}
	client, err := github.New(github.Options{
		BaseURL: c.GitHub.APIURL, Token: p.o.Token, Login: p.o.Login, Fleet: c.Director.Fleet,
		Labels:         github.Labels(c.GitHub.Labels),
		TrustedAuthors: c.GitHub.TrustedAuthors, MinBetweenWrites: c.RateLimits.GitHub.MinBetweenWrites,
		MaxConcurrent:   c.RateLimits.GitHub.MaxConcurrentRequests,
		CooldownDefault: c.RateLimits.GitHub.CooldownOnRateLimit,
		Secrets:         []string{token}, Transport: cmp.Or(p.o.Transport, http.DefaultTransport), Log: zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	return githubSeen{client, p.o, kindOfToken(c, token)}, nil
}

type githubSeen struct {
	*github.Client
	o    Options
	kind string
}

var _ doctor.GitHub = githubSeen{}

// engine selects the same engine as container.Open, and leaves nothing behind.
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
	return &dockerSeen{Docker: docker, p: p}, nil
}

// docker opens the engine under a separate fleet, so that no director takes the trial's containers for attempts.
func (p preflight) docker(ctx context.Context, network, nonce string) (*container.Docker, error) {
	return container.OpenDocker(ctx, container.Options{
		Fleet: trialFleet + nonce, Owner: trialFleet + nonce,
		Network: network, OCI: p.o.Config.Containers.OCIRuntime,
	})
}

const trialFleet = "doctor-"

// processesSeen represents plain processes, which need no inspection.
type processesSeen struct {
	doctor.Engine
	sameUser bool
}

// Name returns the engine's name.
func (processesSeen) Name() string { return "plain processes" }

// Confines returns false.
func (processesSeen) Confines() bool { return false }

// Cannot lists what plain processes do not enforce.
func (p processesSeen) Cannot() []string { return container.CannotConfine(p.sameUser) }

// Close does nothing.
func (processesSeen) Close() error { return nil }

type dockerSeen struct {
	*container.Docker
	p preflight
}

var _ doctor.Engine = (*dockerSeen)(nil)

// Name returns the engine's name and address.
func (d *dockerSeen) Name() string { return "Docker at " + d.Host() }

// Confines returns true.
func (*dockerSeen) Confines() bool { return true }

// Try runs our own worker in a container of the image. The worker checks its environment and ends.
func (d *dockerSeen) Try(ctx context.Context, t doctor.Trial) (found doctor.Tried, err error) {
	c, id := d.p.o.Config, trialFleet+loop.NewNonce()
	binary, err := FindWorker(d.p.o.WorkerBinary)
	if err != nil {
		return found, err
	}
	docker, network, done, err := d.network(ctx)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, done()) }()
	gateway, err := docker.EnsureNetwork(ctx)
	if err != nil {
		return found, err
	}
	dir, err := trialFolder(c)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	spec := trialSpec(c, id, dir, binary, nil)
	return tryIn(ctx, docker, spec, t, doctor.Tried{Reached: map[string]string{}, Network: network}, gateway, gateway)
}

// tryIn runs our own worker in a container to check its environment. The container reaches this machine at gateway.
// Test listeners bind to listen, or to all addresses if it is empty.
func tryIn(ctx context.Context, in container.Runtime, spec container.Spec, t doctor.Trial, found doctor.Tried, gateway,
	listen string,
) (doctor.Tried, error) {
	asked := map[string]string{} // the container's address → the address of the trial
	var dials []string
	for _, address := range t.Addresses {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return found, err
		}
		dialled := net.JoinHostPort(cmp.Or(host, gateway), port)
		if t.Listen {
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(cmp.Or(host, listen), port))
			if err != nil {
				found.Reached[address] = "nobody can listen there now: " + err.Error()
				continue
			}
			defer l.Close()
		}
		asked[dialled] = address
		dials = append(dials, dialled)
	}
	spec.Entrypoint = append([]string{container.WorkerPath, inside.Command}, inside.Args(dials, t.Programs)...)
	seen, err := lookFrom(ctx, in, spec)
	if err != nil {
		return found, err
	}
	for dialled, why := range seen.Reached {
		found.Reached[asked[dialled]] = why
	}
	found.Missing = seen.Missing
	return found, nil
}

// Confine sets up the firewall on a temporary network.
func (d *dockerSeen) Confine(ctx context.Context) (err error) {
	binary, err := FindWorker(d.p.o.WorkerBinary)
	if err != nil {
		return err
	}
	nonce := loop.NewNonce()
	made, err := d.p.docker(ctx, "retake-doctor-"+nonce, nonce)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, made.RemoveNetwork(ctx), made.Close())
	}()
	if _, err := made.EnsureNetwork(ctx); err != nil {
		return err
	}
	return made.Confine(ctx, container.Egress{Closed: true, Image: d.p.o.Config.Containers.Image, WorkerBinary: binary})
}

// network returns the workers' network if it exists, and otherwise a temporary one. done removes the temporary
// network.
func (d *dockerSeen) network(ctx context.Context) (_ *container.Docker, name string, done func() error, err error) {
	at, err := d.Gateway(ctx)
	if err != nil {
		return nil, "", nil, err
	}
	if at != "" {
		return d.Docker, "the network " + d.p.o.Config.Containers.Network, func() error { return nil }, nil
	}
	nonce := loop.NewNonce()
	made, err := d.p.docker(ctx, "retake-doctor-"+nonce, nonce)
	if err != nil {
		return nil, "", nil, err
	}
	return made, "a network made for this", func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return errors.Join(made.RemoveNetwork(ctx), made.Close())
	}, nil
}

// trialFolder is mounted in place of the checkout. The engine sees the data directory under the same path, but
// perhaps no other directory.
func trialFolder(c config.Config) (string, error) {
	in, err := filepath.Abs(c.Director.DataDir)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(in); err != nil {
		in = ""
	}
	return os.MkdirTemp(in, trialFleet)
}

func trialSpec(c config.Config, id, dir, binary string, entry []string) container.Spec {
	spec := container.Spec{
		AttemptID: id, Task: "doctor", Image: c.Containers.Image, Workdir: c.Containers.Workdir, Checkout: dir,
		Entrypoint: entry, WorkerBinary: binary,
		Memory: c.Containers.MemoryBytes(), CPUs: c.Containers.CPUs, Pids: int64(c.Containers.PIDs),
		User:     c.Containers.User,
		ReadOnly: c.Containers.ReadOnly, Scratch: c.Containers.Scratch,
	}
	for _, name := range sortedKeys(c.Containers.Env) {
		spec.Env = append(spec.Env, name+"="+c.Containers.Env[name])
	}
	for _, m := range c.Containers.ParsedMounts() {
		if !m.Volume { // a volume would be created
			spec.Mounts = append(spec.Mounts, container.Mount(m))
		}
	}
	return spec
}

// pendingPatience is how long a trial waits for a cluster to start it. The reason for the wait is reported as a
// finding.
const pendingPatience = time.Minute

// lookEvery is the interval at which a trial's container is polled.
const lookEvery = 100 * time.Millisecond

// lookFrom runs a trial's container to its end, removes it, and reads its findings.
func lookFrom(ctx context.Context, docker container.Runtime, spec container.Spec) (seen inside.Seen, err error) {
	err = docker.Ensure(ctx, spec)
	for live, since := true, time.Now(); live && err == nil; {
		var list []container.Status
		if list, err = docker.List(ctx); err != nil {
			break
		}
		live = slices.ContainsFunc(list, func(s container.Status) bool {
			pending := s.State == container.StatePending
			if s.AttemptID == spec.AttemptID && pending && time.Since(since) > pendingPatience {
				err = fmt.Errorf("it has waited for %v to be started: %s", pendingPatience, s.Waiting)
			}
			return s.AttemptID == spec.AttemptID && (pending || s.State.Live())
		})
		if live && err == nil {
			select {
			case <-time.After(lookEvery):
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	exit, stopped := docker.Stop(ending, spec.AttemptID, 0, nil)
	if err = errors.Join(err, stopped); err != nil {
		return seen, err
	}
	if exit.StartError != "" {
		return seen, errors.New(exit.StartError)
	}
	if err := json.Unmarshal(exit.Stdout, &seen); err != nil {
		return seen, fmt.Errorf("the worker in it ended with exit code %d: %s", exit.ExitCode,
			strings.TrimSpace(string(exit.Stderr)+" "+string(exit.Stdout)))
	}
	return seen, nil
}
