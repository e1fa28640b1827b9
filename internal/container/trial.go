package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/pkg/stdcopy"
	"go.uber.org/zap"

	"retake/internal/container/fence"
)

// trial identifies rules that passed a trial. The result stays valid until the kernel loses the rules, even if doors
// change.
type trial struct {
	network, bridge string
	closed          bool
	batch           int // index of the batch that the kernel accepted
}

// hostNetwork is the network mode of the container that installs rules.
const hostNetwork = apicontainer.NetworkMode("host")

// apply installs the rules and, if necessary, tries them: the installing container listens on the network's gateway,
// where no other container on the network may reach it. The caller must hold f.mu.
func (f *firewall) apply(ctx context.Context, r rules, batches [][]byte) (done fence.Done, err error) {
	s, now := &f.state, trial{network: f.net.used().id, bridge: r.bridge, closed: r.closed}
	renewal, again := s.tried, false
	renewal.batch = 0
	task := fence.Task{
		Batches: batches, Bridge: r.bridge, Table: r.tables(r.bridge)[0].Name,
		Listen: net.JoinHostPort(f.net.used().gateway, "0"), Renewal: renewal == now,
	}
	err = f.runFence(ctx, hostNetwork, task, func(_ string, d fence.Done) error {
		done, now.batch = d, d.Used
		switch {
		case d.Used < 0:
			return f.down(errors.New(d.Why), "the kernel of the engine's host needs nf_tables with the inet and "+
				"bridge families (modprobe nf_tables, nf_tables_bridge)")
		case d.Missing != "":
			return f.down(fmt.Errorf("the rules were installed, but %s does not exist on the engine's host", d.Missing),
				"the engine uses a different name for the network's bridge, or another program removes nftables tables")
		case d.Listening != "":
			return f.try(ctx, d.Listening)
		}
		again = now.batch != s.tried.batch
		return nil
	})
	switch {
	case err != nil:
		s.tried = trial{}
	case again: // the kernel has gained or lost a feature since the trial
		s.tried = trial{}
		return f.apply(ctx, r, batches)
	default:
		s.tried = now
	}
	return done, err
}

func (f *firewall) down(cause error, next string) error {
	return &Error{Kind: ErrNetwork, Doing: f.doing(), Cause: cause, Next: next}
}

// try starts two containers on the workers' network. The first listens. The second must fail to reach both the first
// and the listener at host.
func (f *firewall) try(ctx context.Context, host string) error {
	begun, id := time.Now(), f.net.used().id
	on := apicontainer.NetworkMode(id)
	err := f.runFence(ctx, on, fence.Task{Listen: ":0"}, func(beside string, d fence.Done) error {
		info, err := f.api.ContainerInspect(ctx, beside)
		if err != nil {
			return failure(f.doing(), err)
		}
		neighbour, err := neighbourAt(info, id, d.Listening)
		if err != nil {
			return f.down(err, "")
		}
		return f.runFence(ctx, on, fence.Task{Dial: []string{host, neighbour}}, func(_ string, d fence.Done) error {
			for where, address := range map[string]string{"this host": host, "another container": neighbour} {
				switch a, tried := d.Dialled[address]; {
				case !tried || a.Absent:
					return f.down(fmt.Errorf("the trial did not find %s at %s: %s", where, address, a.Why), "")
				case a.Reached:
					return f.down(fmt.Errorf("the rules are installed for bridge %s, but in a trial, a container on "+
						"the network reached %s at %s", f.state.bridge, where, address),
						"let the engine use nftables in the host's network namespace (rootless engines cannot)")
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	f.log.Info("firewall for the worker network activated; a trial container could not reach this host or another "+
		"container",
		zap.String("network", f.net.name), zap.Bool("public_addresses", !f.state.egress.Closed),
		zap.Duration("trial", time.Since(begun).Round(time.Millisecond)))
	return nil
}

// neighbourAt returns the address of a container on a network, with the port of its listener.
func neighbourAt(info apicontainer.InspectResponse, network, listening string) (string, error) {
	_, port, err := net.SplitHostPort(listening)
	if err != nil || info.NetworkSettings == nil {
		return "", errors.Join(errors.New("the trial container has no listener or network"), err)
	}
	for _, n := range info.NetworkSettings.Networks {
		if a, err := netip.ParseAddr(n.IPAddress); err == nil && n.NetworkID == network {
			return net.JoinHostPort(a.String(), port), nil
		}
	}
	return "", errors.New("the trial container has no address on the network")
}

// handOver passes rules to the kernel. The caller must hold f.mu.
func (f *firewall) handOver(ctx context.Context, t fence.Task) error {
	return f.runFence(ctx, hostNetwork, t, func(string, fence.Done) error { return nil })
}

// runFence runs the program of package fence in a container on a network, passes its output to then, and removes the
// container. The container drops all capabilities, except NET_ADMIN on the host's network. The caller must hold f.mu.
func (f *firewall) runFence(ctx context.Context, on apicontainer.NetworkMode, t fence.Task,
	then func(id string, d fence.Done) error,
) error {
	e := f.state.egress
	p, err := f.programs.of(Spec{AttemptID: f.doing(), WorkerBinary: e.WorkerBinary})
	if err != nil {
		return err
	}
	config, host := f.fenceContainer(on, t, p)
	if on == hostNetwork {
		f.sweep(ctx)
	}
	made, err := f.createAside(ctx, config, host)
	if cerrdefs.IsNotFound(err) {
		if err := f.pull(ctx, e.Image); err != nil {
			return err
		}
		made, err = f.createAside(ctx, config, host)
	}
	if err != nil {
		return failure(f.doing(), err)
	}
	defer func() {
		if failed := f.removeAside(ctx, made.ID, apicontainer.RemoveOptions{Force: true}); failed != nil {
			f.log.Warn("could not remove firewall container; the next one will remove it",
				zap.String("container", made.ID), zap.Error(failed))
		}
	}()
	if err := f.programs.provide(ctx, e.Image, p); err != nil {
		return err
	}
	if err := f.api.ContainerStart(ctx, made.ID, apicontainer.StartOptions{}); err != nil {
		return failure(f.doing(), err)
	}
	done, err := f.firstLine(ctx, made.ID)
	if err != nil {
		return err
	}
	return then(made.ID, done)
}

// fenceContainer returns the settings of a container that runs package fence.
func (f *firewall) fenceContainer(on apicontainer.NetworkMode, t fence.Task, p program) (*apicontainer.Config,
	*apicontainer.HostConfig,
) {
	config := &apicontainer.Config{
		Image: f.state.egress.Image, Entrypoint: slices.Concat([]string{WorkerPath, fence.Command}, t.Args()),
		User: "0:0", WorkingDir: "/", Healthcheck: &apicontainer.HealthConfig{Test: []string{"NONE"}},
		// Override the image's labels, since this is not a worker.
		Labels: map[string]string{LabelFence: f.fleet, LabelFleet: "", LabelAttempt: ""},
	}
	host := &apicontainer.HostConfig{
		NetworkMode: on, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"},
		LogConfig: apicontainer.LogConfig{Type: "json-file"}, Resources: apicontainer.Resources{Memory: 64 << 20},
		Mounts: []mount.Mount{p.mount(f.fleet, f.owner, true)}, Runtime: f.oci,
	}
	if on == hostNetwork { // the engine's default runtime, since others may use a separate kernel
		host.CapAdd, host.Runtime = []string{"NET_ADMIN"}, ""
		host.UsernsMode = "host" // in a user namespace, NET_ADMIN does not cover the host's network
	}
	return config, host
}

// errComplete stops reading after the first line of output.
var errComplete = errors.New("container: line complete")

// untilLine collects output until a line is complete.
type untilLine struct{ bytes.Buffer }

func (l *untilLine) Write(p []byte) (int, error) {
	n, _ := l.Buffer.Write(p) // a buffer never fails
	if bytes.IndexByte(p, '\n') >= 0 {
		return n, errComplete
	}
	return n, nil
}

// firstLine reads the first line of output from a started container, which may keep running.
func (f *firewall) firstLine(ctx context.Context, id string) (done fence.Done, err error) {
	log, err := f.api.ContainerLogs(ctx, id,
		apicontainer.LogsOptions{ShowStdout: true, ShowStderr: true, Follow: true})
	if err != nil {
		return done, failure(f.doing(), err)
	}
	defer log.Close()
	var stdout untilLine
	var stderr bytes.Buffer
	if _, err := stdcopy.StdCopy(&stdout, &stderr, log); err != nil && !errors.Is(err, errComplete) {
		return done, failure(f.doing(), err)
	}
	if err := json.Unmarshal(stdout.Bytes(), &done); err != nil {
		said := strings.TrimSpace(stdout.String() + " " + stderr.String())
		return done, failure(f.doing(), fmt.Errorf("%w: %s", err, said))
	}
	return done, nil
}
