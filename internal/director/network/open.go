package network

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/egress"
	"retake/internal/safefile"
)

// Options configure Open.
type Options struct {
	Config       config.Config
	Keys         map[string]egress.Key // by variable: keys that the proxy adds to workers' requests
	Runtime      container.Runtime
	Gateway      string // address at which containers reach this machine
	BusURL       string // the bus's URLs, as workers see them
	WorkerBinary string
	Await        func(context.Context, func() error) error // retries while the engine is unreachable
	Change       func(*egress.Options)                     // for tests: changes the proxy's options; may be nil
	Log          *zap.Logger
}

// Open makes the engine restrict the workers' access, and starts the proxy if necessary.
func Open(ctx context.Context, o Options) (a *Access, err error) {
	c := o.Config.Containers
	_, plain := o.Runtime.(*container.Processes)
	switch {
	case plain && !c.EgressOpen():
		return nil, errors.New(
			`director: containers.egress needs containers, but workers run as plain processes here: use Docker, or set containers.egress = "all"`)
	case plain && !o.Config.NeedsProxy():
		return nil, nil
	}
	doors, ports, err := o.doors(ctx)
	if err != nil {
		return nil, err
	}
	if o.Config.NeedsProxy() {
		if a, err = o.openProxy(ctx); err != nil {
			return nil, err
		}
		doors, ports = append(doors, resolved(ctx, a.url.Host)...), append(ports, portOf(a.url.Host))
	}
	docker, ok := o.Runtime.(*container.Docker)
	if !ok {
		o.logCluster()
		return a, nil
	}
	err = o.Await(ctx, func() error {
		return docker.Confine(ctx, container.Egress{
			Closed: !c.EgressOpen(), Doors: doors, Ports: ports, Image: c.Image, WorkerBinary: o.WorkerBinary,
		})
	})
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// doors returns the addresses that workers may always reach: the configured addresses and the addresses of the bus.
// It also returns the bus's ports, which workers may reach on other members of their network, such as a relay.
func (o *Options) doors(ctx context.Context) (doors []netip.AddrPort, ports []uint16, err error) {
	doors = o.Config.Containers.Doors()
	for one := range strings.SplitSeq(o.BusURL, ",") {
		u, err := url.Parse(one)
		if err != nil {
			return nil, nil, fmt.Errorf("director: parse the bus address: %w", err)
		}
		address := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222"))
		doors, ports = append(doors, resolved(ctx, address)...), append(ports, portOf(address))
	}
	return doors, ports, nil
}

// resolved returns the addresses of a host and port, as this machine resolves them. It returns nil for a name that
// only workers can resolve, because such a host is on their own network.
func resolved(ctx context.Context, address string) (all []netip.AddrPort) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	found, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for _, a := range found {
		all = append(all, netip.AddrPortFrom(a.Unmap(), portOf(address)))
	}
	return all
}

func portOf(address string) uint16 {
	_, port, _ := net.SplitHostPort(address)
	n, _ := strconv.ParseUint(port, 10, 16)
	return uint16(n)
}

// openProxy starts the proxy at the configured address.
func (o *Options) openProxy(ctx context.Context) (*Access, error) {
	c := o.Config.Containers
	listen := c.ProxyListen
	if listen == "auto" {
		listen = net.JoinHostPort(o.Gateway, strconv.Itoa(config.ProxyPort))
		if o.Config.OnCluster() { // pods connect from any node, and the gateway may be the address of a Service
			listen = net.JoinHostPort("", strconv.Itoa(config.ProxyPort))
		}
	}
	secret, err := o.secret()
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("director: the egress proxy cannot listen: %w; stop the program that uses the "+
			"address, or change containers.proxy_listen", err)
	}
	proxied := egress.Options{Hosts: c.EgressHosts(), Doors: c.Doors(), Keys: o.Keys, Secret: secret, Log: o.Log}
	if o.Change != nil {
		o.Change(&proxied)
	}
	proxy := egress.New(proxied)
	proxy.Serve(l)
	host, _, _ := net.SplitHostPort(listen)
	if ip, err := netip.ParseAddr(host); err != nil || ip.IsUnspecified() {
		host = o.Gateway
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	at := &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}
	if c.ProxyURL != "" {
		if at, err = url.Parse(c.ProxyURL); err != nil {
			return nil, errors.Join(err, proxy.Close())
		}
	}
	a := &Access{
		proxy: proxy, url: at, hosts: len(c.EgressHosts()) > 0, keys: slices.Sorted(maps.Keys(o.Keys)),
	}
	o.Log.Info("started the workers' proxy", zap.String("listen", l.Addr().String()),
		zap.Strings("hosts", c.EgressHosts()), zap.Strings("keys", a.keys))
	return a, nil
}

// secret returns the proxy's secret, and creates it if necessary. The secret is permanent, so that the tokens of
// running workers stay valid after a restart.
func (o *Options) secret() ([]byte, error) {
	file := filepath.Join(o.Config.SharedDir(), "egress.key")
	secret, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		secret = make([]byte, 32)
		rand.Read(secret) // crypto/rand never fails
		err = safefile.Write(file, 0o600, secret)
	}
	if err == nil && len(secret) < 32 {
		err = fmt.Errorf("director: %s is damaged: remove it", file)
	}
	return secret, err
}

// logCluster logs which limits on the workers' access only the cluster can enforce.
func (o *Options) logCluster() {
	c := o.Config.Containers
	if !o.Config.OnCluster() {
		return
	}
	if c.EgressOpen() && len(c.Reachable) == 0 {
		o.Log.Info("the cluster's NetworkPolicies must restrict the workers' access")
		return
	}
	o.Log.Warn("only the cluster's NetworkPolicies can enforce containers.egress and containers.reachable; this "+
		"director does not create them",
		zap.Strings("egress", c.Egress), zap.Strings("reachable", c.Reachable),
		zap.String("see", "docs/decisions/0086-attempts-on-kubernetes.md"))
}
