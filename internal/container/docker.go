package container

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/client"
	"go.uber.org/zap"
)

// limits holds the package's timeouts and intervals.
type limits struct {
	ping time.Duration // first request in OpenDocker, while a person waits
	// List, EnsureNetwork, and each step of Ensure and Stop. A start took 0.3 s in measurements, and takes longer on a
	// busy host.
	operation time.Duration
	input     time.Duration // for the daemon's confirmation that it forwarded the whole input, which may never come
	pull      time.Duration // pulling a large image over a slow connection
	confirm   time.Duration // from SIGKILL to the container's end, and from removal to 404
	streams   time.Duration // from the end of a container to the end of its streams
	lateOOM   time.Duration // from the exit to its OOM event, which can arrive late
	backoff   time.Duration // first wait before reconnecting to the events, which doubles up to maxBackoff
	fence     time.Duration // interval between checks of the firewall's rules
}

const maxBackoff = 5 * time.Second

var defaultLimits = limits{
	ping: 5 * time.Second, operation: time.Minute, input: 2 * time.Second, pull: 10 * time.Minute,
	confirm: 15 * time.Second,
	streams: 5 * time.Second, lateOOM: 200 * time.Millisecond, backoff: 100 * time.Millisecond,
	fence: 5 * time.Second,
}

// Docker runs attempts on a Docker daemon. It is safe for concurrent use. Operations on the same attempt run one at a
// time.
type Docker struct {
	*engine
	net        *workerNetwork
	firewall   *firewall
	programs   *programs
	homes      *homes
	ooms       *oomKills
	readers    *streamReaders
	background *background
	attempts   keyedLock
}

var fleetName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// OpenDocker connects to the daemon at DOCKER_HOST, or to the local one, and checks that it answers. It negotiates the
// API version, because an older daemon refuses every call with a newer version.
func OpenDocker(ctx context.Context, o Options) (*Docker, error) {
	if !fleetName.MatchString(o.Fleet) || o.Network == "" {
		return nil, refused("open", "fleet %q, network %q: want a fleet name of letters, digits, '_', '.', '-', and "+
			"a network name", o.Fleet, o.Network)
	}
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, &Error{
			Kind: ErrDaemon, Doing: "open", Cause: err,
			Next: "correct DOCKER_HOST and the other DOCKER_ variables",
		}
	}
	e := &engine{
		api: api, fleet: o.Fleet, owner: o.Owner, oci: o.OCI, log: cmp.Or(o.Log, zap.NewNop()), limits: defaultLimits,
	}
	ping, cancel := context.WithTimeout(ctx, e.limits.ping)
	defer cancel()
	if _, err := api.Ping(ping); err != nil {
		api.Close()
		failed := failure("no answer from "+api.DaemonHost(), err)
		if errors.Is(err, context.DeadlineExceeded) {
			failed.Next = nextStartDaemon
		}
		return nil, failed
	}
	if err := e.inspect(ping); err != nil {
		return nil, errors.Join(err, api.Close())
	}
	return newDocker(e, o.Network), nil
}

func newDocker(e *engine, network string) *Docker {
	b := newBackground()
	net := &workerNetwork{engine: e, name: network}
	programs := &programs{engine: e, names: map[binaryFile]string{}, filled: map[string]string{}}
	return &Docker{
		engine: e, net: net, programs: programs, background: b,
		firewall: &firewall{engine: e, net: net, programs: programs, background: b},
		homes:    &homes{engine: e, found: map[homeKey]string{}},
		ooms:     &oomKills{engine: e, seen: map[string]struct{}{}},
		readers:  &streamReaders{engine: e, background: b},
	}
}

// background runs goroutines until Close.
type background struct {
	ctx     context.Context // done after Close
	cancel  context.CancelFunc
	mu      sync.Mutex
	running sync.WaitGroup
}

func newBackground() *background {
	b := &background{}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// start runs f in a goroutine. It returns false after Close.
func (b *background) start(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return false
	}
	b.running.Go(f)
	return true
}

func (b *background) close() {
	b.mu.Lock() // from here on, goroutines cannot start
	b.cancel()
	b.mu.Unlock()
	b.running.Wait()
}

// Workdir returns the path of a spec's checkout in the container.
func (d *Docker) Workdir(s Spec) string { return s.Workdir }

// Close stops reading streams. Containers keep running and keep the volume with their program. Close removes the volume
// if no container uses it.
func (d *Docker) Close() error {
	d.background.close()
	d.programs.leave()
	return d.api.Close()
}

// List returns all containers of this fleet, sorted by attempt id.
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
		// The daemon's list can lag behind its events, but inspections cannot.
		info, err := d.api.ContainerInspect(ctx, c.ID)
		if cerrdefs.IsNotFound(err) {
			continue // removed since the list
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

// Find returns one attempt's entry in List.
func (d *Docker) Find(ctx context.Context, attemptID string) (s Status, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	info, found, err := d.lookup(ctx, attemptID)
	switch {
	case errors.Is(err, ErrSpec): // belongs to another fleet
		return Status{}, false, nil
	case err != nil || !found || info.Config.Labels[LabelOwner] != d.owner:
		return Status{}, false, err
	}
	return Status{AttemptID: attemptID, Task: info.Config.Labels[LabelTask], State: stateOf(info)}, true, nil
}
