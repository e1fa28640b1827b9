package preflight

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"retake/internal/config"
	"retake/internal/container"
	inside "retake/internal/container/probe"
	"retake/internal/director/engine"
	"retake/internal/director/loop"
	"retake/internal/doctor"
)

type dockerSeen struct {
	*container.Docker
	p preflight
}

var _ doctor.Engine = (*dockerSeen)(nil)

// Name returns the engine's name and address.
func (d *dockerSeen) Name() string { return "Docker at " + d.Host() }

// Confines returns true, because workers run in containers.
func (*dockerSeen) Confines() bool { return true }

// Try runs our worker in a container from the image. The worker checks its environment and exits.
func (d *dockerSeen) Try(ctx context.Context, t doctor.Trial) (found doctor.Tried, err error) {
	c, id := d.p.o.Config, trialFleet+loop.NewNonce()
	binary, err := engine.FindWorker(d.p.o.WorkerBinary)
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
	for _, m := range c.Containers.ParsedMounts() {
		if m.Volume && d.p.o.volumes {
			spec.Mounts = append(spec.Mounts, container.Mount(m))
		}
	}
	return tryIn(ctx, docker, spec, t, doctor.Tried{Reached: map[string]string{}, Network: network}, gateway, gateway)
}

// tryIn runs our worker in a container to check its environment. The container reaches this machine at gateway. Test
// listeners bind to listen, or to all addresses if listen is empty.
func tryIn(ctx context.Context, in container.Runtime, spec container.Spec, t doctor.Trial, found doctor.Tried, gateway,
	listen string,
) (doctor.Tried, error) {
	asked := map[string]string{} // maps the address that the container dials to the trial's address
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
				found.Reached[address] = "the director cannot listen there: " + err.Error()
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

// Confine tests the firewall: it installs the rules on a temporary network, and removes the network.
func (d *dockerSeen) Confine(ctx context.Context) (err error) {
	binary, err := engine.FindWorker(d.p.o.WorkerBinary)
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

// network returns the workers' network or, if it does not exist, a temporary one. done removes the temporary network.
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
	return made, "a temporary network", func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return errors.Join(made.RemoveNetwork(ctx), made.Close())
	}, nil
}

// trialFolder returns a directory to mount in place of the checkout. It is in the data directory, because that may be
// the only directory that an engine sees under the same path.
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
	for _, name := range slices.Sorted(maps.Keys(c.Containers.Env)) {
		spec.Env = append(spec.Env, name+"="+c.Containers.Env[name])
	}
	for _, m := range c.Containers.ParsedMounts() {
		if !m.Volume { // a mount would create the volume
			spec.Mounts = append(spec.Mounts, container.Mount(m))
		}
	}
	return spec
}

// pendingPatience limits how long a trial waits for a cluster to start its container. After that, the cluster's reason
// becomes a finding.
const pendingPatience = time.Minute

// lookEvery is the interval between two polls of a trial's container.
const lookEvery = 100 * time.Millisecond

// lookFrom runs a trial's container until it ends, removes the container, and reads its findings.
func lookFrom(ctx context.Context, docker container.Runtime, spec container.Spec) (seen inside.Seen, err error) {
	// The engine finishes creating the container even after the client has disconnected, so wait for it. Otherwise the
	// container would be left behind.
	starting, started := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	err = docker.Ensure(starting, spec)
	started()
	for live, since := true, time.Now(); live && err == nil; {
		var list []container.Status
		if list, err = docker.List(ctx); err != nil {
			break
		}
		live = slices.ContainsFunc(list, func(s container.Status) bool {
			pending := s.State == container.StatePending
			if s.AttemptID == spec.AttemptID && pending && time.Since(since) > pendingPatience {
				err = fmt.Errorf("the container did not start within %v: %s", pendingPatience, s.Waiting)
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
		return seen, fmt.Errorf("the trial worker exited with code %d: %s", exit.ExitCode,
			strings.TrimSpace(string(exit.Stderr)+" "+string(exit.Stdout)))
	}
	return seen, nil
}
