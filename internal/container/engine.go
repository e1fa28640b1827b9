package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
	"go.uber.org/zap"
)

// engine is a Docker daemon as seen by one fleet.
type engine struct {
	api    *client.Client
	fleet  string
	owner  string
	oci    string   // OCI runtime for attempts, or "" for the daemon's default
	cannot []string // limits of a Spec that the daemon cannot enforce
	log    *zap.Logger
	limits limits
}

// Host returns the daemon's address.
func (e *engine) Host() string { return e.api.DaemonHost() }

// Cannot lists the limits of a Spec that the daemon cannot enforce. An ordinary daemon enforces all of them.
func (e *engine) Cannot() []string { return e.cannot }

// inspect asks the daemon which limits it cannot enforce and checks that it has the configured runtime. If no runtime
// is configured, inspect tolerates a daemon that does not answer.
func (e *engine) inspect(ctx context.Context) error {
	info, err := e.api.Info(ctx)
	switch {
	case err == nil:
		e.cannot = missing(info)
		return e.checkRuntime(info)
	case e.oci != "":
		return failure("list the engine's runtimes", err)
	}
	e.log.Debug("could not list the daemon's capabilities", zap.Error(err))
	return nil
}

func missing(info system.Info) (cannot []string) {
	for _, c := range []struct {
		can  bool
		what string
	}{
		{info.MemoryLimit, "no memory limit: the engine cannot enforce one"},
		{info.SwapLimit || !info.MemoryLimit, "no swap limit: the engine cannot enforce one"},
		{info.CPUCfsQuota, "no CPU limit: the engine cannot enforce one"},
		{info.PidsLimit, "no process limit: the engine cannot enforce one"},
	} {
		if !c.can {
			cannot = append(cannot, c.what)
		}
	}
	return cannot
}

// checkRuntime refuses an unknown runtime at startup, since the daemon would refuse every attempt.
func (e *engine) checkRuntime(info system.Info) error {
	if _, known := info.Runtimes[e.oci]; known || e.oci == "" {
		return nil
	}
	return &Error{
		Kind: ErrSpec, Doing: "runtime " + e.oci,
		Cause: fmt.Errorf("not registered with the engine, which has %s",
			strings.Join(slices.Sorted(maps.Keys(info.Runtimes)),
				", ")),
		Next: fmt.Sprintf(
			`install the runtime and register it with the engine ("runtimes" in /etc/docker/daemon.json, then restart Docker), or set containers.oci_runtime to one of these runtimes; "" selects the default, %s`,
			cmp.Or(info.DefaultRuntime, "runc")),
	}
}

// lookup inspects the attempt's container. It compares the name, because the daemon also accepts a prefix of an id.
func (e *engine) lookup(ctx context.Context,
	attemptID string,
) (info apicontainer.InspectResponse, found bool, err error) {
	info, err = e.api.ContainerInspect(ctx, attemptID)
	switch {
	case cerrdefs.IsNotFound(err):
		return info, false, nil
	case err != nil:
		return info, false, failure("inspect "+attemptID, err)
	case strings.TrimPrefix(info.Name, "/") != attemptID:
		return info, false, nil
	case info.Config == nil || info.State == nil:
		return info, false, failure("inspect "+attemptID, errors.New("the daemon did not return the container's state"))
	case info.Config.Labels[LabelFleet] != e.fleet:
		return info, false, &Error{
			Kind: ErrSpec, Doing: "container " + attemptID,
			Cause: errors.New("a container with that name exists outside fleet " + e.fleet),
			Next:  "remove or rename it",
		}
	}
	return info, true, nil
}

func stateOf(info apicontainer.InspectResponse) State { return states[info.State.Status] }

// containers lists all containers with this fleet's label.
func (e *engine) containers(ctx context.Context) ([]apicontainer.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, e.limits.operation)
	defer cancel()
	found, err := e.api.ContainerList(ctx, apicontainer.ListOptions{All: true, Filters: fleetFilter(e.fleet)})
	if err != nil {
		return nil, failure("list containers", err)
	}
	return found, nil
}

// refuseForeign returns an error if the fleet has another installation's containers, because two directors of one fleet
// on one daemon would remove each other's workers.
func (e *engine) refuseForeign(ctx context.Context) error {
	found, err := e.containers(ctx)
	if err != nil {
		return err
	}
	var foreign []string
	for _, c := range found {
		if c.Labels[LabelOwner] != e.owner {
			foreign = append(foreign, c.Labels[LabelAttempt])
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	slices.Sort(foreign)
	return &Error{
		Kind: ErrSpec, Doing: "open",
		Cause: fmt.Errorf("fleet %s has containers that belong to another director or to a lost data directory (%s)",
			e.fleet, strings.Join(foreign, ", ")),
		Next: fmt.Sprintf("give this director a unique director.fleet, or, if no other director is running, remove "+
			"the containers: docker rm -f $(docker ps -aq --filter label=%s=%s)",
			LabelFleet, e.fleet),
	}
}

// fleetFilter selects objects with this fleet's label.
func fleetFilter(fleet string) filters.Args {
	return filters.NewArgs(filters.Arg("label", LabelFleet+"="+fleet))
}

// apiTime parses a time from the daemon. The daemon's "never" is the year 1, like Go's zero time.
func apiTime(text string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, text) // zero if unreadable
	return t.UTC()
}

// signal sends a signal. accepted is false if the container had already ended.
func (e *engine) signal(ctx context.Context, id, attemptID, name string) (accepted bool, err error) {
	err = e.api.ContainerKill(ctx, id, name)
	switch {
	case err == nil:
		return true, nil
	case cerrdefs.IsConflict(err), cerrdefs.IsNotFound(err):
		return false, nil
	case cerrdefs.IsInternal(err) && ctx.Err() == nil:
		// The process may have ended between the daemon's check and its kill. The caller next waits for the container
		// to end, so a failed kill is not an error.
		e.log.Warn("signal not delivered", zap.String("worker", attemptID), zap.String("signal", name),
			zap.Error(err))
		return false, nil
	default:
		return false, failure("send "+name+" to "+attemptID, err)
	}
}

// awaitEnd waits up to limit until the daemon reports that the container is not running or does not exist.
func (e *engine) awaitEnd(ctx context.Context, id string, limit time.Duration) (bool, error) {
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result, failed := e.api.ContainerWait(waiting, id, apicontainer.WaitConditionNotRunning)
	// Exactly one of the channels delivers a result, even after the limit, so wait for it. Returning earlier would leak
	// the client's goroutine.
	select {
	case r := <-result:
		if r.Error != nil {
			return false, failure("wait for "+id, errors.New(r.Error.Message))
		}
		return true, nil
	case err := <-failed:
		switch {
		case cerrdefs.IsNotFound(err):
			return true, nil
		case waiting.Err() != nil && ctx.Err() == nil:
			return false, nil
		default:
			return false, failure("wait for "+id, err)
		}
	}
}

// createAside creates a container that does not belong to an attempt. The caller must remove it. Canceling ctx does not
// interrupt the request: the daemon would create the container anyway, and the caller could not remove it without its
// id.
func (e *engine) createAside(ctx context.Context, config *apicontainer.Config,
	host *apicontainer.HostConfig,
) (apicontainer.CreateResponse, error) {
	if err := ctx.Err(); err != nil {
		return apicontainer.CreateResponse{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.limits.operation)
	defer cancel()
	return e.api.ContainerCreate(ctx, config, host, nil, nil, "")
}

// removeAside removes a container created by createAside, even after ctx is done.
func (e *engine) removeAside(ctx context.Context, id string, o apicontainer.RemoveOptions) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.limits.confirm)
	defer cancel()
	if err := e.api.ContainerRemove(ctx, id, o); err != nil && !cerrdefs.IsNotFound(err) {
		return err
	}
	return nil
}
