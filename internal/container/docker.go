package container

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"go.uber.org/zap"
)

// limits bound how long one operation waits for the daemon.
type limits struct {
	ping      time.Duration // at open: a person waits
	operation time.Duration // list, network, and the parts of Ensure and Stop; starts took 0.3 s here, busy hosts need more
	pull      time.Duration // a large image over a slow line
	confirm   time.Duration // from SIGKILL to "does not run", and from removal to 404
	streams   time.Duration // from the end of a container to the end of its streams
	settle    time.Duration // from the end of the streams to the end of their container: milliseconds on a quiet host
	lateOOM   time.Duration // an oom event can come after the exit
	backoff   time.Duration // first wait before the events are asked for again; doubles to maxBackoff
}

const maxBackoff = 5 * time.Second

var defaultLimits = limits{
	ping: 5 * time.Second, operation: time.Minute, pull: 10 * time.Minute, confirm: 15 * time.Second,
	streams: 5 * time.Second, settle: 500 * time.Millisecond, lateOOM: 200 * time.Millisecond, backoff: 100 * time.Millisecond,
}

// Docker runs attempts on a Docker daemon. Safe for concurrent use; operations on the same attempt take turns.
type Docker struct {
	api     *client.Client
	fleet   string
	owner   string
	network string
	log     *zap.Logger
	limits  limits
	cannot  []string

	life   context.Context // ends with Close; bounds the goroutines that read streams
	end    context.CancelFunc
	pumps  sync.WaitGroup
	takes  turns[take] // from the first operation until Stop collected the attempt
	mu     sync.Mutex
	ooms   map[string]struct{} // container ids of which Watch saw an oom event
	subnet *network.IPAM       // of the network when it was last ensured, so that a pruned one comes back the same
	closed bool
}

// take is what this process holds about one attempt.
type take struct {
	streams *streams // nil: nobody reads them here
	sent    sent
}

var fleetName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// OpenDocker connects to the daemon that DOCKER_HOST names, or the local one, and makes sure that it answers. The API
// version is negotiated: without that an older daemon refuses every call.
func OpenDocker(ctx context.Context, o Options) (*Docker, error) {
	if !fleetName.MatchString(o.Fleet) || o.Network == "" {
		return nil, refused("open", "fleet %q, network %q: want a fleet of letters, digits, '_', '.', '-', and a network", o.Fleet, o.Network)
	}
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, &Error{Kind: ErrDaemon, Doing: "open", Cause: err, Next: "correct DOCKER_HOST and the other DOCKER_ variables"}
	}
	d := &Docker{
		api: api, fleet: o.Fleet, owner: o.Owner, network: o.Network, log: o.Log, limits: defaultLimits,
		ooms: map[string]struct{}{},
	}
	if d.log == nil {
		d.log = zap.NewNop()
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
	d.cannot = d.missing(ping)
	d.life, d.end = context.WithCancel(context.Background())
	return d, nil
}

// missing asks the daemon what its kernel, or its missing rights, keep it from. No answer is no reason not to start.
func (d *Docker) missing(ctx context.Context) (cannot []string) {
	info, err := d.api.Info(ctx)
	if err != nil {
		d.log.Debug("the daemon does not say what it can do", zap.Error(err))
		return nil
	}
	for _, c := range []struct {
		can  bool
		what string
	}{
		{info.MemoryLimit, "no memory limit: the engine says that it cannot hold one"},
		{info.SwapLimit || !info.MemoryLimit, "no limit on swap: the engine says that it cannot hold one"},
		{info.CPUCfsQuota, "no CPU limit: the engine says that it cannot hold one"},
		{info.PidsLimit, "no limit on processes: the engine says that it cannot hold one"},
	} {
		if !c.can {
			cannot = append(cannot, c.what)
		}
	}
	return cannot
}

// Cannot says, in words for the log, which promises of a Spec this engine does not keep; none on an ordinary one.
func (d *Docker) Cannot() []string { return d.cannot }

// Workdir returns where the worker of a spec finds its checkout.
func (d *Docker) Workdir(s Spec) string { return s.Workdir }

// Close stops reading streams and forgets them. Containers go on.
func (d *Docker) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.end()
	d.pumps.Wait()
	return d.api.Close()
}

// lookup inspects the container of that exact name. The daemon also answers to the beginning of an id, which is not what
// was asked for.
func (d *Docker) lookup(ctx context.Context, attemptID string) (info apicontainer.InspectResponse, found bool, err error) {
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
	found, err := d.api.ContainerList(ctx, apicontainer.ListOptions{All: true, Filters: d.ours()})
	if err != nil {
		return nil, failure("list containers", err)
	}
	list := make([]Status, 0, len(found))
	for _, c := range found {
		info, err := d.api.ContainerInspect(ctx, c.ID)
		if cerrdefs.IsNotFound(err) {
			continue // removed in between
		}
		if err != nil {
			return nil, failure("inspect "+c.ID, err)
		}
		if info.State != nil && info.Config != nil {
			list = append(list, d.status(info))
		}
	}
	sortStatuses(list)
	return list, nil
}

func (d *Docker) status(info apicontainer.InspectResponse) Status {
	s := info.State
	return Status{
		AttemptID:   strings.TrimPrefix(info.Name, "/"),
		Task:        info.Config.Labels[LabelTask],
		ContainerID: info.ID,
		State:       stateOf(info),
		ExitCode:    s.ExitCode,
		OOM:         s.OOMKilled || d.sawOOM(info.ID),
		StartError:  s.Error,
		StartedAt:   apiTime(s.StartedAt),
		FinishedAt:  apiTime(s.FinishedAt),
	}
}

// apiTime reads the daemon's time; its "never" is the year 1, which is Go's zero.
func apiTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
