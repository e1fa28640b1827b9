package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
	"go.uber.org/zap"
)

// limits bound how long one operation waits for the daemon.
type limits struct {
	ping time.Duration // at open: a person waits
	// list, network, and the parts of Ensure and Stop; starts took 0.3 s here, busy hosts need more
	operation time.Duration
	input     time.Duration // from the input's last byte to the daemon's word that it was passed on, which may not come
	pull      time.Duration // a large image over a slow line
	confirm   time.Duration // from SIGKILL to "does not run", and from removal to 404
	streams   time.Duration // from the end of a container to the end of its streams
	lateOOM   time.Duration // an oom event can come after the exit
	backoff   time.Duration // first wait before the events are asked for again; doubles to maxBackoff
}

const maxBackoff = 5 * time.Second

var defaultLimits = limits{
	ping: 5 * time.Second, operation: time.Minute, input: 2 * time.Second, pull: 10 * time.Minute,
	confirm: 15 * time.Second,
	streams: 5 * time.Second, lateOOM: 200 * time.Millisecond, backoff: 100 * time.Millisecond,
}

// Docker runs attempts on a Docker daemon. Safe for concurrent use; operations on the same attempt wait for each other.
type Docker struct {
	api     *client.Client
	fleet   string
	owner   string
	network string
	oci     string // runtime of attempts; empty: the engine's default
	log     *zap.Logger
	limits  limits
	cannot  []string // promises of a Spec that this engine does not keep; none on an ordinary one

	ctx      context.Context // ends with Close; bounds the goroutines that read streams
	cancel   context.CancelFunc
	readers  sync.WaitGroup
	attempts keyedLock
	mu       sync.Mutex
	ooms     map[string]struct{} // ids of containers for which Watch saw an oom event
	homes    map[homeKey]string  // as the images' /etc/passwd has them
	inUse    networkInUse
	programs programs

	ensuring sync.Mutex // held by EnsureNetwork
	fencing  sync.Mutex
	fence    fenceState
}

var fleetName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// OpenDocker connects to the daemon that DOCKER_HOST names, or the local one, and makes sure that it answers. The API
// version is negotiated: without that an older daemon refuses every call.
func OpenDocker(ctx context.Context, o Options) (*Docker, error) {
	if !fleetName.MatchString(o.Fleet) || o.Network == "" {
		return nil, refused("open", "fleet %q, network %q: want a fleet of letters, digits, '_', '.', '-', "+
			"and a network", o.Fleet, o.Network)
	}
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, &Error{
			Kind: ErrDaemon, Doing: "open", Cause: err,
			Next: "correct DOCKER_HOST and the other DOCKER_ variables",
		}
	}
	d := &Docker{
		api: api, fleet: o.Fleet, owner: o.Owner, network: o.Network, oci: o.OCI, log: cmp.Or(o.Log, zap.NewNop()),
		limits: defaultLimits,
		ooms:   map[string]struct{}{}, homes: map[homeKey]string{}, programs: programs{
			names:  map[binaryFile]string{},
			filled: map[string]string{},
		},
	}
	ping, cancel := context.WithTimeout(ctx, d.limits.ping)
	defer cancel()
	if _, err := api.Ping(ping); err != nil {
		api.Close()
		e := failure("no answer from "+api.DaemonHost(), err)
		if errors.Is(err, context.DeadlineExceeded) {
			e.Next = nextStartDaemon
		}
		return nil, e
	}
	if err := d.ask(ping); err != nil {
		return nil, errors.Join(err, api.Close())
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d, nil
}

// ask asks the daemon about itself: which limits its kernel or its rights keep it from enforcing, and whether
// it knows the runtime. No answer is no reason not to start, unless there is one to know.
func (d *Docker) ask(ctx context.Context) error {
	info, err := d.api.Info(ctx)
	switch {
	case err == nil:
		d.cannot = missing(info)
		return d.knows(info)
	case d.oci != "":
		return failure("ask the engine for its runtimes", err)
	}
	d.log.Debug("the daemon does not list its capabilities", zap.Error(err))
	return nil
}

func missing(info system.Info) (cannot []string) {
	for _, c := range []struct {
		can  bool
		what string
	}{
		{info.MemoryLimit, "no memory limit: the engine cannot enforce one"},
		{info.SwapLimit || !info.MemoryLimit, "no limit on swap: the engine cannot enforce one"},
		{info.CPUCfsQuota, "no CPU limit: the engine cannot enforce one"},
		{info.PidsLimit, "no limit on processes: the engine cannot enforce one"},
	} {
		if !c.can {
			cannot = append(cannot, c.what)
		}
	}
	return cannot
}

// knows refuses a runtime that the engine does not list. Each attempt would be refused otherwise, one by one.
func (d *Docker) knows(info system.Info) error {
	if _, known := info.Runtimes[d.oci]; known || d.oci == "" {
		return nil
	}
	return &Error{
		Kind: ErrSpec, Doing: "runtime " + d.oci,
		Cause: fmt.Errorf("the engine has none of that name (%s)", strings.Join(slices.Sorted(maps.Keys(info.Runtimes)),
			", ")),
		Next: fmt.Sprintf(
			`install it and add it to the engine ("runtimes" in /etc/docker/daemon.json, then restart Docker), or set containers.oci_runtime to one that it has; "" is its default, %s`,
			cmp.Or(info.DefaultRuntime, "runc")),
	}
}

// Workdir returns where the worker of a spec finds its checkout.
func (d *Docker) Workdir(s Spec) string { return s.Workdir }

// Close stops reading streams and forgets them. Containers go on, and keep the volume of their program; without
// any it is removed.
func (d *Docker) Close() error {
	d.mu.Lock() // no reader is added after this
	d.cancel()
	d.mu.Unlock()
	d.readers.Wait()
	d.leavePrograms()
	return d.api.Close()
}

// lookup inspects the container of that exact name. The daemon also answers to the beginning of an id, which is
// not what was asked for.
func (d *Docker) lookup(ctx context.Context,
	attemptID string,
) (info apicontainer.InspectResponse, found bool, err error) {
	info, err = d.api.ContainerInspect(ctx, attemptID)
	switch {
	case cerrdefs.IsNotFound(err):
		return info, false, nil
	case err != nil:
		return info, false, failure("inspect "+attemptID, err)
	case strings.TrimPrefix(info.Name, "/") != attemptID:
		return info, false, nil
	case info.Config == nil || info.State == nil:
		return info, false, failure("inspect "+attemptID, errors.New("answer without state"))
	case info.Config.Labels[LabelFleet] != d.fleet:
		return info, false, &Error{
			Kind: ErrSpec, Doing: "container " + attemptID,
			Cause: errors.New("a container of that name exists and is not of fleet " + d.fleet),
			Next:  "remove or rename it",
		}
	}
	return info, true, nil
}

func stateOf(info apicontainer.InspectResponse) State { return states[info.State.Status] }

// List returns all containers of this fleet, in the order of their attempt ids.
func (d *Docker) List(ctx context.Context) ([]Status, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	found, err := d.containers(ctx)
	if err != nil {
		return nil, err
	}
	var list []Status
	for _, c := range found {
		if c.Labels[LabelOwner] != d.owner {
			continue
		}
		// The daemon's list can be behind its events; an inspection is not.
		info, err := d.api.ContainerInspect(ctx, c.ID)
		if cerrdefs.IsNotFound(err) {
			continue // removed in between
		}
		if err != nil {
			return nil, failure("inspect "+c.ID, err)
		}
		if info.State != nil && info.Config != nil {
			list = append(list, Status{
				AttemptID: strings.TrimPrefix(info.Name, "/"),
				Task:      info.Config.Labels[LabelTask], State: stateOf(info),
			})
		}
	}
	SortStatuses(list)
	return list, nil
}

// Find returns what List would say of one attempt.
func (d *Docker) Find(ctx context.Context, attemptID string) (s Status, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	info, found, err := d.lookup(ctx, attemptID)
	switch {
	case errors.Is(err, ErrSpec): // another fleet's
		return Status{}, false, nil
	case err != nil || !found || info.Config.Labels[LabelOwner] != d.owner:
		return Status{}, false, err
	}
	return Status{AttemptID: attemptID, Task: info.Config.Labels[LabelTask], State: stateOf(info)}, true, nil
}

// containers are those that carry exactly this fleet's label, whoever made them.
func (d *Docker) containers(ctx context.Context) ([]apicontainer.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	found, err := d.api.ContainerList(ctx, apicontainer.ListOptions{All: true, Filters: fleetFilter(d.fleet)})
	if err != nil {
		return nil, failure("list containers", err)
	}
	return found, nil
}

// refuseForeign refuses a fleet whose containers another installation has made. Two directors of one fleet on
// one engine would each remove the other's workers as strays.
func (d *Docker) refuseForeign(ctx context.Context) error {
	found, err := d.containers(ctx)
	if err != nil {
		return err
	}
	var foreign []string
	for _, c := range found {
		if c.Labels[LabelOwner] != d.owner {
			foreign = append(foreign, c.Labels[LabelAttempt])
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	slices.Sort(foreign)
	return &Error{
		Kind: ErrSpec, Doing: "open",
		Cause: fmt.Errorf("fleet %s has containers of another director, or of a data directory that is lost (%s)",
			d.fleet, strings.Join(foreign, ", ")),
		Next: fmt.Sprintf("give this director a director.fleet of its own; if no other one runs, remove them: docker "+
			"rm -f $(docker ps -aq --filter label=%s=%s)",
			LabelFleet, d.fleet),
	}
}

// fleetFilter selects what carries exactly this fleet's label.
func fleetFilter(fleet string) filters.Args {
	return filters.NewArgs(filters.Arg("label", LabelFleet+"="+fleet))
}

// apiTime reads the daemon's time; its "never" is the year 1, which is Go's zero.
func apiTime(text string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, text) // what cannot be read is zero
	return t.UTC()
}
