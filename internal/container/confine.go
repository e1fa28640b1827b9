package container

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"go.uber.org/zap"

	"retake/internal/container/fence"
)

// Egress is the set of addresses that workers can reach.
type Egress struct {
	Closed       bool             // if set, workers reach only Doors; otherwise also public addresses
	Doors        []netip.AddrPort // the bus, the proxy and configured addresses, on this host or elsewhere
	Ports        []uint16         // open ports of other members of the workers' network, such as a relay
	Image        string           // image of the container that installs the rules
	WorkerBinary string           // program in that container, which implements fence.Command
}

// LabelFence marks the containers that install rules. Its value is the fleet.
const LabelFence = "retake.fence"

// fenceAge is the maximum age of installed rules that the firewall trusts without a check. After a flush of the host's
// nftables, the workers' network stays open for at most this long while attempts start or workers run.
const fenceAge = time.Minute

// deadResolver is the name server of confined workers, an unused address in their network namespace. Queries to the
// daemon's resolver would bypass the rules, so they could carry data out.
const deadResolver = "127.0.0.1"

// firewall keeps the rules of the workers' network installed in the kernel of the daemon's host.
type firewall struct {
	*engine
	net        *workerNetwork
	programs   *programs
	background *background

	mu    sync.Mutex
	state fenceState
}

// fenceState is the state of the installed rules.
type fenceState struct {
	egress      *Egress // nil before Confine
	nameservers []netip.Addr
	rules       rules  // installed
	keeping     bool   // set while a goroutine checks the rules
	network     string // id, or "" if no rules are installed
	bridge      string // of network, or of rules that failed their trial
	tried       trial
	at          time.Time
	warned      bool
}

// Confine limits the addresses that workers can reach from now on. A short-lived container in the host's network
// installs the rules in the kernel of the daemon's host, so access to the daemon suffices. Each start of an attempt
// renews them. Two containers on the workers' network then try to reach this host and each other. Errors: ErrNetwork if
// the kernel refuses the rules or one of these trials succeeds, ErrDaemon. After an error, attempts do not start if
// e.Closed is set, and start without rules otherwise.
func (d *Docker) Confine(ctx context.Context, e Egress) error {
	f := d.firewall
	f.mu.Lock()
	before := f.state
	f.state = fenceState{egress: &e, bridge: before.bridge, keeping: true}
	f.mu.Unlock()
	if !before.keeping {
		f.background.start(f.keep)
	}
	return f.ensure(ctx)
}

// Unconfine removes the rules installed by Confine.
func (d *Docker) Unconfine(ctx context.Context) error {
	d.firewall.mu.Lock()
	bridge := d.firewall.state.bridge
	d.firewall.mu.Unlock()
	return d.firewall.takeDown(ctx, bridge)
}

// RemoveRules removes the rules of networks that no longer exist, for callers that removed a director's network without
// RemoveNetwork. It runs the worker's program in a container from the image.
func (d *Docker) RemoveRules(ctx context.Context, image, workerBinary string) error {
	f := d.firewall
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.egress = &Egress{Image: image, WorkerBinary: workerBinary}
	return f.handOver(ctx, fence.Task{})
}

// Warm reinstalls outdated rules in advance, so that the next Ensure does not wait for them. It only logs an error,
// because Ensure tries again and returns its own error.
func (d *Docker) Warm(ctx context.Context) {
	if err := d.firewall.ensure(ctx); err != nil {
		d.log.Debug("firewall not active yet", zap.Error(err))
	}
}

// keep checks the rules periodically until Close. While workers run, a relay may restart with another address, and the
// host's firewall may be reloaded.
func (f *firewall) keep() {
	for {
		select {
		case <-time.After(f.limits.fence):
		case <-f.background.ctx.Done():
			return
		}
		if err := f.mend(); err != nil && f.background.ctx.Err() == nil {
			f.log.Warn("could not check the firewall for the worker network", zap.Error(err))
		}
	}
}

// mend reinstalls the rules if the doors have changed, or if workers run and the rules are older than fenceAge.
func (f *firewall) mend() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := f.net.used().id
	if f.state.network == "" || f.state.network != id || f.state.warned { // the next start will install them, or fail
		return nil
	}
	ctx, cancel := context.WithTimeout(f.background.ctx, f.limits.operation)
	defer cancel()
	r, workers, err := f.rules(ctx, id)
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if slices.Equal(r.doors, f.state.rules.doors) && (workers == 0 || time.Since(f.state.at) < fenceAge) {
		return nil
	}
	f.state.network = "" // until install succeeds
	return f.install(ctx)
}

// ensure installs the rules unless they are fresh. If egress is open, it logs a failure once instead of returning it.
func (f *firewall) ensure(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.state
	if s.egress == nil || s.network == f.net.used().id && time.Since(s.at) < fenceAge {
		return nil
	}
	err := f.install(ctx)
	if err == nil || s.egress.Closed || ctx.Err() != nil {
		return err
	}
	s.network, s.at = f.net.used().id, time.Now() // do not retry immediately
	if !s.warned {
		s.warned = true
		f.log.Warn("firewall for the worker network is down, so workers can reach each other, this machine and "+
			"private networks", zap.Error(err))
	}
	return nil
}

// resolvers returns the name servers of a worker. Nil means the daemon's resolver.
func (f *firewall) resolvers() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.egress != nil && f.state.egress.Closed {
		return []string{deadResolver}
	}
	return nil
}

// install replaces the rules. It tries them unless this process has already tried the same rules and the kernel still
// has them. The caller must hold f.mu.
func (f *firewall) install(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.limits.operation)
	defer cancel()
	id, s := f.net.used().id, &f.state
	for {
		r, _, err := f.rules(ctx, id)
		if err != nil {
			return err
		}
		batches, err := r.batches()
		if err != nil {
			return refused(f.doing(), "%w", err)
		}
		s.bridge = r.bridge
		done, err := f.apply(ctx, r, batches)
		if err != nil {
			return err
		}
		asked := addresses(done.Nameservers)
		if !r.closed && !slices.Equal(asked, r.nameservers) {
			s.nameservers = asked
			continue
		}
		s.network, s.rules, s.at, s.warned = id, r, time.Now(), false
		return nil
	}
}

func (f *firewall) doing() string { return "firewall for " + f.net.name }

// addresses parses IP addresses and skips other strings.
func addresses(texts []string) (all []netip.Addr) {
	for _, t := range texts {
		if a, err := netip.ParseAddr(t); err == nil {
			all = append(all, a.WithZone(""))
		}
	}
	return all
}

// rules returns the rules for the network's current members, and the number of its workers. The caller must hold f.mu.
func (f *firewall) rules(ctx context.Context, id string) (r rules, workers int, err error) {
	info, err := f.api.NetworkInspect(ctx, id, network.InspectOptions{})
	if cerrdefs.IsNotFound(err) {
		return r, 0, err // the caller recreates the missing network
	}
	if err != nil {
		return r, 0, failure("network "+f.net.name, err)
	}
	e := f.state.egress
	r = rules{
		fleet: f.fleet, bridge: bridgeOf(info), stale: f.state.bridge, doors: slices.Clone(e.Doors),
		nameservers: f.state.nameservers, closed: e.Closed,
	}
	for _, c := range info.IPAM.Config {
		if p, err := netip.ParsePrefix(c.Subnet); err == nil {
			r.subnets = append(r.subnets, p)
		}
	}
	there, err := f.api.ContainerList(ctx,
		apicontainer.ListOptions{Filters: filters.NewArgs(filters.Arg("network", id))})
	if err != nil {
		return r, 0, failure("list containers on "+f.net.name, err)
	}
	for _, c := range there {
		if c.Labels[LabelAttempt] != "" {
			workers++
			continue
		}
		if c.Labels[LabelFence] != "" || c.NetworkSettings == nil { // a trial's container is not a relay
			continue
		}
		for _, n := range c.NetworkSettings.Networks {
			if a, err := netip.ParseAddr(n.IPAddress); err == nil && n.NetworkID == id {
				for _, port := range e.Ports {
					r.doors = append(r.doors, netip.AddrPortFrom(a, port))
				}
			}
		}
	}
	slices.SortFunc(r.doors, netip.AddrPort.Compare)
	return r, workers, nil
}

// bridgeOf returns the network's interface, which has the daemon's default name unless configured.
func bridgeOf(n network.Inspect) string {
	if name := n.Options["com.docker.network.bridge.name"]; name != "" {
		return name
	}
	return "br-" + n.ID[:min(12, len(n.ID))]
}

// takeDown removes this fleet's rules for bridges, if Confine was called.
func (f *firewall) takeDown(ctx context.Context, bridges ...string) (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range bridges {
		if f.state.egress == nil || b == "" {
			continue
		}
		batch, failed := rules{fleet: f.fleet, bridge: b}.removal()
		if failed == nil {
			failed = f.handOver(ctx, fence.Task{Batches: [][]byte{batch}})
		}
		err = errors.Join(err, failed)
	}
	f.state.network, f.state.bridge = "", ""
	return err
}

// sweep removes the firewall's containers and the file helpers left behind by a killed process.
func (f *firewall) sweep(ctx context.Context) {
	for _, label := range []string{LabelFence, labelHelper} {
		old, err := f.api.ContainerList(ctx,
			apicontainer.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", label+"="+f.fleet))})
		if err != nil {
			return // the caller's next request will fail for the same reason
		}
		for _, c := range old {
			if time.Since(time.Unix(c.Created, 0)) > f.limits.operation {
				// The daemon refuses to remove volumes that a worker uses.
				_ = f.api.ContainerRemove(ctx, c.ID, apicontainer.RemoveOptions{Force: true, RemoveVolumes: true})
			}
		}
	}
}
