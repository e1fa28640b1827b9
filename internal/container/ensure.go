package container

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"go.uber.org/zap"

	"retake/internal/sys/crashpoint"
)

// Ensure starts the attempt's container unless it exists. The package comment describes what happens to an existing
// one. Ensure returns nil for an exited container, without restarting it. Errors: ErrSpec, ErrImageMissing,
// ErrImagePull, ErrDaemon. After an error, a container that never ran may be left behind. Stop removes it, and another
// Ensure starts it.
func (d *Docker) Ensure(ctx context.Context, spec Spec) error {
	if err := d.check(spec); err != nil {
		return err
	}
	a, release, err := d.attempts.acquire(ctx, spec.AttemptID)
	if err != nil {
		return failure("wait for attempt "+spec.AttemptID, err)
	}
	defer release(false)
	info, found, err := d.lookup(ctx, spec.AttemptID)
	if err != nil {
		return err
	}
	// An interrupted Ensure left this container and closed its input, so create a new container.
	if found && stateOf(info) == StateCreated && len(spec.Stdin) > 0 {
		if err := d.remove(ctx, info.ID, spec.AttemptID); err != nil {
			return err
		}
		found = false
	}
	if !found {
		id, err := d.create(ctx, spec)
		if err != nil {
			return err
		}
		return d.launch(ctx, a, id, spec)
	}
	switch state := stateOf(info); {
	case state == StateCreated:
		return d.launch(ctx, a, info.ID, spec)
	case state == StateRemoving:
		return failure("start "+spec.AttemptID, errors.New("a container with that name is being removed"))
	case state.Live():
		return d.readers.follow(ctx, a, info.ID)
	default:
		return nil
	}
}

func (e *engine) check(spec Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	protected := sockets
	if u, err := url.Parse(e.api.DaemonHost()); err == nil && u.Scheme == "unix" {
		protected = append([]string{u.Path}, sockets...)
	}
	for _, m := range apiMounts(spec) {
		if strings.HasPrefix(m.Source, "/") &&
			slices.ContainsFunc(protected, func(s string) bool { return holds(m.Source, s) }) {
			return refused("attempt "+spec.AttemptID, "mounting %s would expose the Docker socket to the "+
				"worker", m.Source)
		}
	}
	return nil
}

// create creates the container without starting it. It pulls a missing image once.
func (d *Docker) create(ctx context.Context, spec Spec) (id string, err error) {
	id, err = d.createOnce(ctx, spec)
	if !cerrdefs.IsNotFound(err) {
		return id, err
	}
	if err := d.pull(ctx, spec.Image); err != nil {
		return "", err
	}
	id, err = d.createOnce(ctx, spec)
	if cerrdefs.IsNotFound(err) {
		return "", &Error{Kind: ErrImageMissing, Doing: spec.Image, Cause: err, Next: nextImage(spec.Image)}
	}
	return id, err
}

// createOnce returns the daemon's "not found" unwrapped. This error can only mean that the image is missing,
// because the daemon looks up all other objects later.
func (d *Docker) createOnce(ctx context.Context, spec Spec) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	if d.net.used().id == "" {
		if _, err := d.net.ensure(ctx); err != nil {
			return "", err
		}
	}
	p, err := d.programs.of(spec)
	if err != nil {
		return "", err
	}
	// Without the id, the daemon would look up the network by name when the container starts.
	endpoints := map[string]*network.EndpointSettings{d.net.name: {NetworkID: d.net.used().id}}
	create := func(home string) (apicontainer.CreateResponse, error) {
		config, host := apiConfig(spec, d.fleet, d.owner, d.net.name, home, p)
		host.DNS, host.Runtime = d.firewall.resolvers(), d.oci
		return d.api.ContainerCreate(ctx, config, host, &network.NetworkingConfig{EndpointsConfig: endpoints}, nil,
			spec.AttemptID)
	}
	var made apicontainer.CreateResponse
	if spec.ReadOnly {
		made, err = d.createReadOnly(ctx, spec, create)
	} else {
		made, err = create("")
	}
	crashpoint.Reached("container/create/after")
	for _, warning := range made.Warnings {
		d.log.Warn("container created with warnings", zap.String("worker", spec.AttemptID),
			zap.String("reason", warning))
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return "", own
	}
	if err != nil && !cerrdefs.IsNotFound(err) {
		return "", failure("create "+spec.AttemptID, err)
	}
	return made.ID, err
}

// launch starts a created container and follows its output. If the network is gone, usually after a "docker network
// prune" while no worker ran, launch recreates the network and the container.
func (d *Docker) launch(ctx context.Context, a *attemptState, id string, spec Spec) error {
	starting, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	in, err := d.begin(starting, id, spec)
	if _, own := errors.AsType[*Error](err); !own && cerrdefs.IsNotFound(err) {
		if id, err = d.onNewNetwork(starting, id, spec); err != nil {
			return err
		}
		in, err = d.begin(starting, id, spec)
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if err != nil {
		return d.startFailure(starting, id, spec, err)
	}
	d.passOn(starting, in, spec.AttemptID)
	return d.readers.follow(ctx, a, id)
}

// onNewNetwork recreates a container on a new network, since a container refers to its network by id.
func (d *Docker) onNewNetwork(ctx context.Context, id string, spec Spec) (string, error) {
	if _, err := d.net.ensure(ctx); err != nil {
		return "", err
	}
	if err := d.remove(ctx, id, spec.AttemptID); err != nil {
		return "", err
	}
	return d.create(ctx, spec)
}

// begin installs the firewall, copies the files into a created container, and starts it with its input open. If the
// start fails, begin closes the input, and the next start opens another. It returns an *Error, or the daemon's error if
// the start itself failed.
func (d *Docker) begin(ctx context.Context, id string, spec Spec) (*input, error) {
	if err := d.firewall.ensure(ctx); err != nil {
		return nil, err
	}
	if err := d.copyFiles(ctx, id, spec); err != nil {
		return nil, err
	}
	in, err := d.attach(ctx, id, spec)
	if err != nil {
		return nil, err
	}
	err = d.api.ContainerStart(ctx, id, apicontainer.StartOptions{})
	crashpoint.Reached("container/start/after")
	if err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

// startFailure distinguishes a program that cannot run from a failing daemon. If the program cannot run, the daemon
// reports the shell's exit code 126 (not executable) or 127 (not found), with any HTTP status.
func (e *engine) startFailure(ctx context.Context, id string, spec Spec, err error) error {
	failed := failure("start "+spec.AttemptID, err)
	if errors.Is(failed, ErrDaemon) {
		info, inspectErr := e.api.ContainerInspect(ctx, id)
		if inspectErr != nil || info.State == nil || (info.State.ExitCode != 126 && info.State.ExitCode != 127) {
			return failed
		}
		failed.Kind, failed.Transient = ErrSpec, false
	}
	failed.Next = "check the entrypoint, user and mounts for image " + spec.Image
	return failed
}

// copyFiles copies the worker and the spec's files into a created container, and gives new volumes to the worker's
// user.
func (d *Docker) copyFiles(ctx context.Context, id string, spec Spec) error {
	p, err := d.programs.of(spec)
	if err != nil {
		return err
	}
	own := p.volume == ""
	if !own {
		if err := d.programs.provide(ctx, spec.Image, p); err != nil || spec.Checkout != "" &&
			!slices.ContainsFunc(spec.Mounts, isGiven) {
			return err
		}
	}
	if spec.ReadOnly {
		return d.throughHelper(ctx, id, spec, own)
	}
	return d.copyArchive(ctx, id, spec, own)
}

// isGiven reports whether a mount's root must belong to the worker's user.
func isGiven(m Mount) bool { return m.Volume && !m.ReadOnly }
