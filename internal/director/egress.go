package director

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
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
	"retake/internal/sys/hidden"
)

// outside is the proxy between workers and the network. The zero value has no proxy.
type outside struct {
	proxy *egress.Proxy // nil without a proxy
	url   *url.URL      // the proxy's URL, as seen by workers
	hosts bool          // workers reach hosts through the proxy
	keys  []string      // variables whose keys the proxy holds
}

// openEgress makes the engine restrict the workers' network access, and starts the proxy if one is needed.
func (d *daemon) openEgress(ctx context.Context) error {
	c := d.setup().Containers
	if d.plainProcesses() && !c.EgressOpen() {
		return errors.New(
			`director: containers.egress needs containers, and workers run as plain processes here: give it Docker, or set containers.egress = "all"`)
	}
	if d.plainProcesses() && !d.needsProxy() {
		return nil
	}
	doors, ports, err := d.doors(ctx)
	if err != nil {
		return err
	}
	if d.needsProxy() {
		at, err := d.openProxy(ctx)
		if err != nil {
			return err
		}
		doors, ports = append(doors, at...), append(ports, portOf(d.outside.url.Host))
	}
	docker, ok := d.runtime.(*container.Docker)
	if !ok {
		d.sayEgressOfCluster()
		return nil
	}
	return d.awaitEngine(ctx, func() error {
		return docker.Confine(ctx, container.Egress{
			Closed: !c.EgressOpen(), Doors: doors, Ports: ports, Image: c.Image,
			WorkerBinary: d.workerBinary,
		})
	})
}

func (d *daemon) needsProxy() bool { return d.setup().NeedsProxy() }

// keyValues returns the values of the keys.
func (d *daemon) keyValues() (all []string) {
	for _, name := range sortedKeys(d.keys) {
		all = append(all, d.keys[name].Value)
	}
	return all
}

// proxiedKeys reads the keys that workers use without holding them.
func proxiedKeys(hosts map[string]string) (map[string]egress.Key, error) {
	all := map[string]egress.Key{}
	for _, name := range sortedKeys(hosts) {
		value := hidden.Getenv(name)
		if value == "" {
			return nil, fmt.Errorf("director: containers.proxied_keys names %s, which is not set: export it, or take "+
				"it off the table", name)
		}
		all[name] = egress.Key{Host: hosts[name], Value: value}
	}
	return all, nil
}

// doors returns the addresses that workers may always reach: the bus, and the configured ones. It also returns the
// bus's ports, for a server that stands in for it on the workers' network.
func (d *daemon) doors(ctx context.Context) (doors []netip.AddrPort, ports []uint16, err error) {
	doors = d.setup().Containers.Doors()
	for one := range strings.SplitSeq(d.hub.Bus().WorkerURL(d.gateway), ",") {
		u, err := url.Parse(one)
		if err != nil {
			return nil, nil, fmt.Errorf("director: address of the bus: %w", err)
		}
		address := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222"))
		doors, ports = append(doors, resolved(ctx, address)...), append(ports, portOf(address))
	}
	return doors, ports, nil
}

// resolved returns the addresses of a host and port, as resolved on this machine. It returns nil for a name that
// only workers can resolve, because that name belongs to their own network.
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

// openProxy starts the proxy at the configured address, and returns the addresses at which workers reach it.
func (d *daemon) openProxy(ctx context.Context) ([]netip.AddrPort, error) {
	c := d.setup().Containers
	listen := c.ProxyListen
	if listen == "auto" {
		listen = net.JoinHostPort(d.gateway, strconv.Itoa(config.ProxyPort))
		if d.onCluster() { // pods connect from anywhere, and the address may belong to a Service
			listen = net.JoinHostPort("", strconv.Itoa(config.ProxyPort))
		}
	}
	secret, err := d.egressSecret()
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("director: the proxy of containers.egress cannot listen: %w; end the program that "+
			"does, or change containers.proxy_listen", err)
	}
	o := egress.Options{Hosts: c.EgressHosts(), Doors: c.Doors(), Keys: d.keys, Secret: secret, Log: d.log}
	if d.internet != nil {
		d.internet(&o)
	}
	proxy := egress.New(o)
	proxy.Serve(l)
	host, _, _ := net.SplitHostPort(listen)
	if a, err := netip.ParseAddr(host); err != nil || a.IsUnspecified() {
		host = d.gateway
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	at := &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}
	if c.ProxyURL != "" {
		if at, err = url.Parse(c.ProxyURL); err != nil {
			return nil, errors.Join(err, proxy.Close())
		}
	}
	d.outside = outside{proxy: proxy, url: at, hosts: len(c.EgressHosts()) > 0, keys: sortedKeys(d.keys)}
	d.log.Info("the proxy of workers is up", zap.String("listen", l.Addr().String()),
		zap.Strings("hosts", c.EgressHosts()), zap.Strings("keys", d.outside.keys))
	return resolved(ctx, at.Host), nil
}

// egressSecret returns the proxy's secret and creates it once. Workers that a later process adopts keep their
// tokens.
func (d *daemon) egressSecret() ([]byte, error) {
	file := filepath.Join(d.sharedDir(), "egress.key")
	secret, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		secret = make([]byte, 32)
		rand.Read(secret) // never fails
		err = safefile.Write(file, 0o600, secret)
	}
	if err == nil && len(secret) < 32 {
		err = fmt.Errorf("director: %s is damaged: remove it", file)
	}
	return secret, err
}

// Admit lets an attempt use the proxy.
func (o outside) Admit(attempt string) {
	if o.proxy != nil {
		o.proxy.Admit(attempt)
	}
}

// Dismiss closes the attempt's connections at the proxy.
func (o outside) Dismiss(attempt string) {
	if o.proxy != nil {
		o.proxy.Dismiss(attempt)
	}
}

// Secrets returns the attempt's secrets that are valid until it ends.
func (o outside) Secrets(attempt string) []string {
	if o.proxy == nil {
		return nil
	}
	return []string{o.proxy.Token(attempt)}
}

// denied returns, for people, the hosts that the proxy denied to an attempt.
func (o outside) denied(attempt string) (lines []string) {
	if o.proxy == nil {
		return nil
	}
	for _, host := range o.proxy.Denied(attempt) {
		lines = append(lines, "egress denied: "+host)
	}
	return lines
}

// Environ adds the variables by which an attempt's programs find the proxy. For agents it also adds placeholders
// for the keys.
func (o outside) Environ(attempt string, before []string, agent bool) []string {
	if o.proxy == nil {
		return before
	}
	var ours []string
	if o.hosts {
		at := *o.url
		at.User = url.UserPassword(attempt, o.proxy.Token(attempt))
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
			ours = append(ours, name+"="+at.String(), strings.ToLower(name)+"="+at.String())
		}
		ours = append(ours, "NODE_USE_ENV_PROXY=1") // Node reads the other variables only with this one
	}
	for _, name := range o.keys {
		if agent {
			ours = append(append(ours, name+"="+o.proxy.Placeholder(attempt)),
				config.BaseURLs(name, o.url.String()+"/"+name)...)
		}
	}
	none := "localhost,127.0.0.1," + o.url.Hostname()
	for _, v := range before { // set for a proxy of the user
		if name, hosts, _ := strings.Cut(v, "="); strings.EqualFold(name, "NO_PROXY") && hosts != "" {
			none += "," + hosts
		}
	}
	ours = append(ours, "NO_PROXY="+none, "no_proxy="+none)
	return replacing(before, ours)
}

// replacing adds variables and replaces those with the same name.
func replacing(before, more []string) []string {
	names := map[string]bool{}
	for _, v := range more {
		name, _, _ := strings.Cut(v, "=")
		names[name] = true
	}
	return append(slices.DeleteFunc(slices.Clone(before), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return names[name]
	}), more...)
}
