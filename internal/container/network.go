package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"go.uber.org/zap"
)

// twinAge is the maximum delay until another network of the same name appears in the list. The daemon checks the name
// before it creates a network, and lists the network only a few tenths of a second later. Two simultaneous requests can
// therefore create two networks.
const twinAge = time.Second

// workerNetwork is the workers' network.
type workerNetwork struct {
	*engine
	name     string
	ensuring sync.Mutex // held by ensure

	mu    sync.Mutex
	inUse networkInUse
}

// networkInUse is the network that this process uses. Only the id identifies a network, since names are not unique.
type networkInUse struct {
	id      string
	gateway string
	subnet  *network.IPAM // used to recreate a pruned network, since the bus listens on the gateway
}

// EnsureNetwork creates the workers' network unless it exists. It returns the network's gateway, the address at which
// workers reach the host, but not its loopback interface. EnsureNetwork uses an existing bridge of that name, no matter
// who created it.
//
// If directors start together or are killed, several networks can share that name. All directors then choose the
// same network (see choose) and remove their redundant networks. The gateway does not change during the life of a
// process. Errors: ErrNetwork (permanent) if the network is unsuitable, ErrDaemon.
func (d *Docker) EnsureNetwork(ctx context.Context) (gateway string, err error) {
	return d.net.ensure(ctx)
}

func (n *workerNetwork) ensure(ctx context.Context) (gateway string, err error) {
	ctx, cancel := context.WithTimeout(ctx, n.limits.operation)
	defer cancel()
	n.ensuring.Lock()
	defer n.ensuring.Unlock()
	for waited := false; ; {
		all, err := n.list(ctx)
		if err != nil {
			return "", err
		}
		chosen, err := n.choose(ctx, all)
		switch {
		case err != nil:
			return "", err
		case chosen == nil:
			if err := n.create(ctx, len(all) > 0); err != nil {
				return "", err
			}
			continue
		case !waited && time.Since(chosen.Created).Abs() < twinAge:
			waited = true
			select {
			case <-time.After(twinAge):
			case <-ctx.Done():
				return "", failure("network "+n.name, ctx.Err())
			}
			continue
		}
		gateway, err = n.join(*chosen)
		if err == nil {
			n.removeTwins(ctx, all, chosen.ID)
		}
		return gateway, err
	}
}

// Gateway returns the gateway that EnsureNetwork would return, or "" if the network does not exist. It does not create
// a network.
func (d *Docker) Gateway(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	d.net.ensuring.Lock()
	defer d.net.ensuring.Unlock()
	all, err := d.net.list(ctx)
	if err != nil {
		return "", err
	}
	chosen, err := d.net.choose(ctx, all)
	if err != nil || chosen == nil {
		return "", err
	}
	return d.net.join(*chosen)
}

// RemoveNetwork removes this fleet's networks with the configured name, and their firewall if Confine was called.
func (d *Docker) RemoveNetwork(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	all, err := d.net.list(ctx)
	if err != nil {
		return err
	}
	var gone []string
	for _, n := range all {
		if n.Labels[LabelFleet] != d.fleet {
			continue
		}
		if err := d.api.NetworkRemove(ctx, n.ID); err != nil && !cerrdefs.IsNotFound(err) {
			d.log.Warn("could not remove network", zap.String("network", n.Name), zap.Error(err))
			return failure("remove network "+n.Name, err)
		}
		gone = append(gone, bridgeOf(n))
	}
	return d.firewall.takeDown(ctx, gone...)
}

// list returns the networks with the configured name, oldest first.
func (n *workerNetwork) list(ctx context.Context) ([]network.Summary, error) {
	all, err := n.api.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(filters.Arg("name", n.name))})
	if err != nil {
		return nil, failure("network "+n.name, err)
	}
	// The filter also matches parts of names.
	all = slices.DeleteFunc(all, func(one network.Summary) bool { return one.Name != n.name })
	slices.SortFunc(all, func(a, b network.Summary) int {
		return cmp.Or(a.Created.Compare(b.Created),
			cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// choose picks one of the networks with the configured name. If this process already uses a network, choose returns the
// same network, or another one with the same gateway. Otherwise it prefers a network with workers of this fleet, and
// then the oldest bridge. Nil means that the network must be created.
func (n *workerNetwork) choose(ctx context.Context, all []network.Summary) (*network.Summary, error) {
	find := func(is func(network.Summary) bool) *network.Summary {
		if i := slices.IndexFunc(all, is); i >= 0 {
			return &all[i]
		}
		return nil
	}
	if before := n.used(); before.id != "" {
		if same := find(func(n network.Summary) bool { return n.ID == before.id }); same != nil {
			return same, nil
		}
		return find(func(n network.Summary) bool {
			gateway, err := gatewayOf(n.IPAM)
			return err == nil && n.Driver == network.NetworkBridge && gateway == before.gateway
		}), nil
	}
	if len(all) > 1 {
		on, err := n.ofWorkers(ctx)
		if err != nil {
			return nil, err
		}
		if found := find(func(n network.Summary) bool { return on[n.ID] }); found != nil {
			return found, nil
		}
		if found := find(func(n network.Summary) bool { return n.Driver == network.NetworkBridge }); found != nil {
			return found, nil
		}
	}
	return find(func(network.Summary) bool { return true }), nil
}

// ofWorkers returns the ids of the networks used by this fleet's running containers.
func (n *workerNetwork) ofWorkers(ctx context.Context) (map[string]bool, error) {
	running, err := n.api.ContainerList(ctx, apicontainer.ListOptions{Filters: fleetFilter(n.fleet)})
	if err != nil {
		return nil, failure("list containers", err)
	}
	on := map[string]bool{}
	for _, c := range running {
		if c.NetworkSettings == nil {
			continue
		}
		for _, endpoint := range c.NetworkSettings.Networks {
			on[endpoint.NetworkID] = true
		}
	}
	return on, nil
}

// join makes this process use a network. It returns the network's gateway.
func (n *workerNetwork) join(chosen network.Summary) (gateway string, err error) {
	if chosen.Driver != network.NetworkBridge {
		return "", &Error{
			Kind: ErrNetwork, Doing: n.name,
			Cause: fmt.Errorf("the network has driver %q, but workers need %q", chosen.Driver, network.NetworkBridge),
			Next: fmt.Sprintf("remove it (docker network rm %s), or set containers.network to another name",
				n.name),
		}
	}
	gateway, err = gatewayOf(chosen.IPAM)
	if err != nil {
		return "", &Error{
			Kind: ErrNetwork, Doing: n.name, Cause: err,
			Next: fmt.Sprintf("remove it (docker network rm %s) and let the director recreate it", n.name),
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inUse = networkInUse{chosen.ID, gateway, &network.IPAM{
		Driver: chosen.IPAM.Driver, Options: chosen.IPAM.Options, Config: chosen.IPAM.Config,
	}}
	return gateway, nil
}

// used returns the network that this process uses. Its id is empty before the first join.
func (n *workerNetwork) used() networkInUse {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.inUse
}

// create creates the network with its last known addresses. A conflict means that another process has created the
// network, so create returns nil. If others is set, the existing networks have other addresses, so a conflict is an
// error.
func (n *workerNetwork) create(ctx context.Context, others bool) error {
	_, err := n.api.NetworkCreate(ctx, n.name, network.CreateOptions{
		Driver: network.NetworkBridge, IPAM: n.used().subnet,
		Labels: map[string]string{LabelFleet: n.fleet, LabelOwner: n.owner},
	})
	switch {
	case err == nil, cerrdefs.IsConflict(err) && !others:
		return nil
	case cerrdefs.IsConflict(err):
		return &Error{
			Kind: ErrNetwork, Doing: n.name, Transient: true,
			Cause: errors.New("another network with the same name has replaced it, but does not have the bus address"),
			Next:  "restart the director so that it uses that network",
		}
	}
	return failure("create network "+n.name, err)
}

// removeTwins removes unused networks that this fleet created. The daemon keeps a network with containers.
func (n *workerNetwork) removeTwins(ctx context.Context, all []network.Summary, keep string) {
	for _, twin := range all {
		if twin.ID == keep {
			continue
		}
		log := n.log.With(zap.String("network", twin.Name), zap.String("id", twin.ID), zap.String("used", keep))
		switch {
		case twin.Labels[LabelFleet] != n.fleet:
			log.Info("found an unused network with the same name, created by another fleet or a person")
		case n.api.NetworkRemove(ctx, twin.ID) == nil:
			log.Info("removed this fleet's duplicate network")
		default:
			log.Info("keeping this fleet's duplicate network until no container uses it")
		}
	}
}

// gatewayOf returns the first IPv4 gateway, or else the first of any family. Some daemons add a prefix length.
func gatewayOf(ipam network.IPAM) (string, error) {
	var first string
	for _, c := range ipam.Config {
		addr, err := netip.ParseAddr(c.Gateway)
		if err != nil {
			prefix, err := netip.ParsePrefix(c.Gateway)
			if err != nil {
				continue
			}
			addr = prefix.Addr()
		}
		if addr.Is4() {
			return addr.String(), nil
		}
		if first == "" {
			first = addr.String()
		}
	}
	if first == "" {
		return "", errors.New("the network has no gateway address")
	}
	return first, nil
}
