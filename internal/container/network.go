package container

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"
)

// EnsureNetwork makes the workers' network unless it exists, and returns its gateway: the host's address that workers
// reach, since from a bridge network the host's loopback is out of reach. An existing bridge of that name is used,
// whoever made it. Errors: ErrNetwork (permanent) if it cannot serve, ErrDaemon.
func (d *Docker) EnsureNetwork(ctx context.Context) (gateway string, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	doing := "network " + d.network
	info, err := d.api.NetworkInspect(ctx, d.network, network.InspectOptions{})
	// The daemon also answers to the beginning of an id: another name is not ours.
	if cerrdefs.IsNotFound(err) || (err == nil && info.Name != d.network) {
		if err := d.createNetwork(ctx); err != nil {
			return "", err
		}
		info, err = d.api.NetworkInspect(ctx, d.network, network.InspectOptions{})
	}
	if err != nil {
		return "", failure(doing, err)
	}
	if info.Driver != network.NetworkBridge {
		return "", &Error{
			Kind: ErrNetwork, Doing: d.network,
			Cause: fmt.Errorf("it exists with driver %q, workers need %q", info.Driver, network.NetworkBridge),
			Next:  fmt.Sprintf("remove it (docker network rm %s), or set containers.network to another name", d.network),
		}
	}
	gateway, err = gatewayOf(info.IPAM)
	if err != nil {
		return "", &Error{
			Kind: ErrNetwork, Doing: d.network, Cause: err,
			Next: fmt.Sprintf("remove it (docker network rm %s) and let the director make it", d.network),
		}
	}
	d.mu.Lock()
	d.subnet = &network.IPAM{Driver: info.IPAM.Driver, Options: info.IPAM.Options, Config: info.IPAM.Config}
	d.mu.Unlock()
	return gateway, nil
}

// createNetwork makes the network, with the addresses it had when it was last seen: the bus listens on its gateway.
func (d *Docker) createNetwork(ctx context.Context) error {
	d.mu.Lock()
	addresses := d.subnet
	d.mu.Unlock()
	_, err := d.api.NetworkCreate(ctx, d.network, network.CreateOptions{
		Driver: network.NetworkBridge, IPAM: addresses, Labels: map[string]string{LabelFleet: d.fleet},
	})
	if err != nil && !cerrdefs.IsConflict(err) { // a conflict: somebody was faster
		return failure("create network "+d.network, err)
	}
	return nil
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
