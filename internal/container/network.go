package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"go.uber.org/zap"
)

// twinAge is for how long an older network of the same name may still come to light: the engine looks for
// another one of that name before it makes one, and shows it when it is made, which takes some tenths of a
// second.
const twinAge = time.Second

// networkInUse is the workers' network that this process uses, by its id: names are not unique.
type networkInUse struct {
	id      string
	gateway string
	subnet  *network.IPAM // so that one that was pruned comes back the same: the bus listens on its gateway
}

// EnsureNetwork makes the workers' network unless it exists, and returns its gateway: the host's address that
// workers reach, since from a bridge network the host's loopback is out of reach. An existing bridge of that
// name is used, whoever made it. Two directors that make it at the same time, or one that is killed meanwhile,
// may leave several of one name; all choose the same one (see choose), and what they made themselves for
// nothing they remove. For the life of a process the gateway stays the same. Errors: ErrNetwork (permanent) if
// it cannot serve, ErrDaemon.
func (d *Docker) EnsureNetwork(ctx context.Context) (gateway string, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	d.ensuring.Lock()
	defer d.ensuring.Unlock()
	for waited := false; ; {
		all, err := d.networks(ctx)
		if err != nil {
			return "", err
		}
		chosen, err := d.choose(ctx, all)
		switch {
		case err != nil:
			return "", err
		case chosen == nil:
			if err := d.createNetwork(ctx, len(all) > 0); err != nil {
				return "", err
			}
			continue
		case !waited && time.Since(chosen.Created).Abs() < twinAge:
			waited = true
			select {
			case <-time.After(twinAge):
			case <-ctx.Done():
				return "", failure("network "+d.network, ctx.Err())
			}
			continue
		}
		gateway, err = d.join(*chosen)
		if err == nil {
			d.removeTwins(ctx, all, chosen.ID)
		}
		return gateway, err
	}
}

// networks lists those of the configured name, the oldest first.
func (d *Docker) networks(ctx context.Context) ([]network.Summary, error) {
	all, err := d.api.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(filters.Arg("name", d.network))})
	if err != nil {
		return nil, failure("network "+d.network, err)
	}
	// the filter takes parts of names, too
	all = slices.DeleteFunc(all, func(n network.Summary) bool { return n.Name != d.network })
	slices.SortFunc(all, func(a, b network.Summary) int {
		return cmp.Or(a.Created.Compare(b.Created),
			cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// choose picks one of the networks of our name: the one that this process has used, or one with the same
// addresses; else, of the one that workers of this fleet are on and the oldest, the first. Nil: one has to be
// made.
func (d *Docker) choose(ctx context.Context, all []network.Summary) (*network.Summary, error) {
	find := func(is func(network.Summary) bool) *network.Summary {
		if i := slices.IndexFunc(all, is); i >= 0 {
			return &all[i]
		}
		return nil
	}
	if before := d.used(); before.id != "" {
		if same := find(func(n network.Summary) bool { return n.ID == before.id }); same != nil {
			return same, nil
		}
		return find(func(n network.Summary) bool {
			gateway, err := gatewayOf(n.IPAM)
			return err == nil && n.Driver == network.NetworkBridge && gateway == before.gateway
		}), nil
	}
	if len(all) > 1 {
		on, err := d.networksOfWorkers(ctx)
		if err != nil {
			return nil, err
		}
		if n := find(func(n network.Summary) bool { return on[n.ID] }); n != nil {
			return n, nil
		}
		if n := find(func(n network.Summary) bool { return n.Driver == network.NetworkBridge }); n != nil {
			return n, nil
		}
	}
	return find(func(network.Summary) bool { return true }), nil
}

// networksOfWorkers are the ids of the networks that running containers of this fleet are on.
func (d *Docker) networksOfWorkers(ctx context.Context) (map[string]bool, error) {
	running, err := d.api.ContainerList(ctx, apicontainer.ListOptions{Filters: fleetFilter(d.fleet)})
	if err != nil {
		return nil, failure("list containers", err)
	}
	on := map[string]bool{}
	for _, c := range running {
		if c.NetworkSettings == nil {
			continue
		}
		for _, n := range c.NetworkSettings.Networks {
			on[n.NetworkID] = true
		}
	}
	return on, nil
}

// join makes a network the one that this process uses.
func (d *Docker) join(n network.Summary) (gateway string, err error) {
	if n.Driver != network.NetworkBridge {
		return "", &Error{
			Kind: ErrNetwork, Doing: d.network,
			Cause: fmt.Errorf("it exists with driver %q, workers need %q", n.Driver, network.NetworkBridge),
			Next: fmt.Sprintf("remove it (docker network rm %s), or set containers.network to another name",
				d.network),
		}
	}
	gateway, err = gatewayOf(n.IPAM)
	if err != nil {
		return "", &Error{
			Kind: ErrNetwork, Doing: d.network, Cause: err,
			Next: fmt.Sprintf("remove it (docker network rm %s) and let the director make it", d.network),
		}
	}
	d.mu.Lock()
	d.inUse = networkInUse{n.ID, gateway, &network.IPAM{
		Driver: n.IPAM.Driver, Options: n.IPAM.Options,
		Config: n.IPAM.Config,
	}}
	d.mu.Unlock()
	return gateway, nil
}

// used is the network that this process uses; without an id: none yet.
func (d *Docker) used() networkInUse {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inUse
}

// createNetwork makes the network, with the addresses it had when it was last seen. Who was faster made it,
// unless others of the name are there, none of which has these addresses.
func (d *Docker) createNetwork(ctx context.Context, others bool) error {
	_, err := d.api.NetworkCreate(ctx, d.network, network.CreateOptions{
		Driver: network.NetworkBridge, IPAM: d.used().subnet, Labels: map[string]string{LabelFleet: d.fleet},
	})
	switch {
	case err == nil, cerrdefs.IsConflict(err) && !others:
		return nil
	case cerrdefs.IsConflict(err):
		return &Error{
			Kind: ErrNetwork, Doing: d.network, Transient: true,
			Cause: errors.New("it was removed, and another one of its name has other addresses than the bus"),
			Next:  "restart the director: it will use the other one",
		}
	}
	return failure("create network "+d.network, err)
}

// removeTwins removes what this fleet has made and does not use. The engine keeps a network that a container is on.
func (d *Docker) removeTwins(ctx context.Context, all []network.Summary, keep string) {
	for _, n := range all {
		if n.ID == keep {
			continue
		}
		log := d.log.With(zap.String("network", n.Name), zap.String("id", n.ID), zap.String("used", keep))
		switch {
		case n.Labels[LabelFleet] != d.fleet:
			log.Info("there is another network of this name, which another fleet or a person has made; nothing " +
				"here uses it")
		case d.api.NetworkRemove(ctx, n.ID) == nil:
			log.Info("removed a second network of this name that this fleet had made")
		default:
			log.Info("a second network of this name is left until no container uses it")
		}
	}
}

// gatewayOf picks the first IPv4 gateway, or else the first of any family. Some daemons write it with a prefix length.
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
		return "", errors.New("it has no gateway address")
	}
	return first, nil
}
