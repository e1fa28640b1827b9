package container

import (
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"go.uber.org/zap"

	"retake/internal/sys/crashpoint"
)

// Ensure makes sure that the attempt's container was started. See the package comment for what happens when it
// exists already; an exited one is not restarted and not an error. Errors: ErrSpec, ErrImageMissing,
// ErrImagePull, ErrDaemon. After an error a container may exist that never ran: Stop removes it, a further
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
	// an earlier Ensure that was cut off may have ended its input
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
		return failure("start "+spec.AttemptID, errors.New("a container of that name is being removed"))
	case state.Live():
		return d.follow(ctx, a, info.ID)
	default:
		return nil
	}
}

func (d *Docker) check(spec Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	protected := sockets
	if u, err := url.Parse(d.api.DaemonHost()); err == nil && u.Scheme == "unix" {
		protected = append([]string{u.Path}, sockets...)
	}
	for _, m := range apiMounts(spec) {
		if strings.HasPrefix(m.Source, "/") &&
			slices.ContainsFunc(protected, func(s string) bool { return holds(m.Source, s) }) {
			return refused("attempt "+spec.AttemptID, "mount of %s would give the worker the Docker socket", m.Source)
		}
	}
	return nil
}

// create makes the container without starting it. A missing image is pulled once.
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

// createOnce does not wrap "not found": of all that a create refers to, only the image can be missing.
func (d *Docker) createOnce(ctx context.Context, spec Spec) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	if d.used().id == "" {
		if _, err := d.EnsureNetwork(ctx); err != nil {
			return "", err
		}
	}
	p, err := d.programOf(spec)
	if err != nil {
		return "", err
	}
	// The engine remembers the name of a network, and looks it up again at the start, unless its id stands beside it.
	endpoints := map[string]*network.EndpointSettings{d.network: {NetworkID: d.used().id}}
	create := func(home string) (apicontainer.CreateResponse, error) {
		config, host := apiConfig(spec, d.fleet, d.owner, d.network, home, p)
		host.DNS, host.Runtime = d.resolvers(), d.oci
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
		d.log.Warn("container created with a warning", zap.String("worker", spec.AttemptID),
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

// launch starts a created container, and follows its output.
func (d *Docker) launch(ctx context.Context, a *attemptState, id string, spec Spec) error {
	id, err := d.start(ctx, id, spec)
	if err != nil {
		return err
	}
	return d.follow(ctx, a, id)
}

// start gives a created container its files and its input, and starts it. It returns the id: a container whose
// network is gone is made anew.
func (d *Docker) start(ctx context.Context, id string, spec Spec) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	in, err := d.begin(ctx, id, spec)
	// most likely "docker network prune" while no worker ran
	if _, own := errors.AsType[*Error](err); !own && cerrdefs.IsNotFound(err) {
		if id, err = d.onNewNetwork(ctx, id, spec); err != nil {
			return "", err
		}
		in, err = d.begin(ctx, id, spec)
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return "", own
	}
	if err != nil {
		return "", d.startFailure(ctx, id, spec, err)
	}
	d.passOn(ctx, in, spec.AttemptID)
	return id, nil
}

// onNewNetwork makes a container anew whose network is gone: it knows that one by its id.
func (d *Docker) onNewNetwork(ctx context.Context, id string, spec Spec) (string, error) {
	if _, err := d.EnsureNetwork(ctx); err != nil {
		return "", err
	}
	if err := d.remove(ctx, id, spec.AttemptID); err != nil {
		return "", err
	}
	return d.create(ctx, spec)
}

// begin gives a created container its files, and starts it with its input open, once the firewall is up. A
// start that fails ends the input: the next one opens it anew. Errors: *Error, or the engine's own about the
// start.
func (d *Docker) begin(ctx context.Context, id string, spec Spec) (*input, error) {
	if err := d.fenced(ctx); err != nil {
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

// startFailure distinguishes a program that cannot be executed from a daemon in trouble: for the former the
// daemon sets the shell's exit codes 126 (not executable) and 127 (not there), whatever HTTP status it answers
// with.
func (d *Docker) startFailure(ctx context.Context, id string, spec Spec, err error) error {
	e := failure("start "+spec.AttemptID, err)
	if errors.Is(e, ErrDaemon) {
		info, inspectErr := d.api.ContainerInspect(ctx, id)
		if inspectErr != nil || info.State == nil || (info.State.ExitCode != 126 && info.State.ExitCode != 127) {
			return e
		}
		e.Kind, e.Transient = ErrSpec, false
	}
	e.Next = "check the entrypoint, the user and the mounts of image " + spec.Image
	return e
}

// copyFiles lets a created container have the worker, puts its files in, and gives new volumes to the worker's user.
func (d *Docker) copyFiles(ctx context.Context, id string, spec Spec) error {
	p, err := d.programOf(spec)
	if err != nil {
		return err
	}
	own := p.volume == ""
	if !own {
		if err := d.provide(ctx, spec.Image, p); err != nil || spec.Checkout != "" &&
			!slices.ContainsFunc(spec.Mounts, isGiven) {
			return err
		}
	}
	if spec.ReadOnly {
		return d.throughHelper(ctx, id, spec, own)
	}
	return d.copyArchive(ctx, id, spec, own)
}

// isGiven reports whether a mount's root is given to the worker's user.
func isGiven(m Mount) bool { return m.Volume && !m.ReadOnly }

// copyArchive streams the tar: a worker is some tens of MB.
func (d *Docker) copyArchive(ctx context.Context, id string, spec Spec, withWorker bool) error {
	var worker io.Reader
	var size int64
	if withWorker {
		f, n, err := openWorker(spec)
		if err != nil {
			return err
		}
		defer f.Close()
		worker, size = f, n
	}
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := archive(w, spec, worker, size)
		w.CloseWithError(err)
		written <- err
	}()
	err := d.api.CopyToContainer(ctx, id, "/", r, apicontainer.CopyToContainerOptions{})
	r.CloseWithError(errors.New("the daemon has stopped reading"))
	archiveErr := <-written
	if err != nil {
		return failure("copy files into "+spec.AttemptID, errors.Join(err, archiveErr))
	}
	return nil
}
