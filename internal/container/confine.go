package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	apicontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/pkg/stdcopy"
	"go.uber.org/zap"

	"retake/internal/container/fence"
)

// Egress is what workers reach.
type Egress struct {
	Closed       bool             // nothing but the doors; else public addresses, too
	Doors        []netip.AddrPort // of this host and elsewhere: the bus, the proxy, what was configured
	Ports        []uint16         // doors on what stands on the workers' network and is no worker, such as a relay
	Image        string           // of the container that puts up the rules
	WorkerBinary string           // the program in it, which knows fence.Command
}

// LabelFence marks the containers that put up rules; its value is the fleet.
const LabelFence = "retake.fence"

// fenceAge is for how long rules that were put up are taken to be there. Whoever empties the host's nftables
// opens the workers' network for no longer than this while an attempt starts, or an event of the engine comes.
const fenceAge = time.Minute

// keepEvery is how often the engine is asked whether the rules should be others.
const keepEvery = 5 * time.Second

// deadResolver is what closed workers ask for names: nobody, in their own network. The engine's resolver asks
// from outside of the rules otherwise, and what it asks carries words out.
const deadResolver = "127.0.0.1"

// fenceState is what was put up, held by Docker.fencing.
type fenceState struct {
	egress      *Egress // nil: nobody asked for any
	nameservers []netip.Addr
	rules       rules  // that are up
	keeping     bool   // somebody looks after them
	network     string // id; empty: nothing is up
	bridge      string // of it
	at          time.Time
	warned      bool
}

// Confine has the kernel of the engine's host keep what workers reach, now and at each start of an attempt. It
// needs no right of this process but the engine's: a container of the host's network puts the rules up, and is
// gone when they are. Errors: ErrNetwork if the kernel refuses; ErrDaemon. After an error no attempt starts if
// e is closed; else attempts start as if nothing were to be kept.
func (d *Docker) Confine(ctx context.Context, e Egress) error {
	d.fencing.Lock()
	before := d.fence
	d.fence = fenceState{egress: &e, bridge: before.bridge, keeping: true}
	d.fencing.Unlock()
	d.mu.Lock()
	if d.ctx.Err() == nil && !before.keeping {
		d.readers.Go(d.keep)
	}
	d.mu.Unlock()
	return d.fenced(ctx)
}

// keep looks after the rules until Close: relays come back with other addresses, and hosts' firewalls are
// loaded anew while workers run.
func (d *Docker) keep() {
	for {
		select {
		case <-time.After(keepEvery):
		case <-d.ctx.Done():
			return
		}
		if err := d.mendFence(); err != nil && d.ctx.Err() == nil {
			d.log.Warn("the firewall of the workers' network could not be looked after", zap.Error(err))
		}
	}
}

// mendFence puts the rules up anew if they should be others, or if workers run and it was not done for long.
func (d *Docker) mendFence() error {
	d.fencing.Lock()
	defer d.fencing.Unlock()
	id := d.used().id
	if d.fence.network == "" || d.fence.network != id || d.fence.warned { // the next start puts them up, or nobody can
		return nil
	}
	ctx, cancel := context.WithTimeout(d.ctx, d.limits.operation)
	defer cancel()
	r, workers, err := d.rulesOf(ctx, id)
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if slices.Equal(r.doors, d.fence.rules.doors) && (workers == 0 || time.Since(d.fence.at) < fenceAge) {
		return nil
	}
	d.fence.network = "" // unless it succeeds
	return d.putUp(ctx)
}

// Warm does ahead of time what an Ensure would wait for: the rules, which are put up anew for an attempt that
// starts after a while without any. What keeps it from that, the Ensure says.
func (d *Docker) Warm(ctx context.Context) {
	if err := d.fenced(ctx); err != nil {
		d.log.Debug("the firewall is not up yet", zap.Error(err))
	}
}

// fenced makes sure that the rules are up. While nothing is to be kept closed, what keeps it from that is a
// warning, once.
func (d *Docker) fenced(ctx context.Context) error {
	d.fencing.Lock()
	defer d.fencing.Unlock()
	if d.fence.egress == nil || d.fence.network == d.used().id && time.Since(d.fence.at) < fenceAge {
		return nil
	}
	err := d.putUp(ctx)
	if err == nil || d.fence.egress.Closed || ctx.Err() != nil {
		return err
	}
	d.fence.network, d.fence.at = d.used().id, time.Now() // not again at once
	if !d.fence.warned {
		d.fence.warned = true
		d.log.Warn("the firewall of the workers' network is not up: workers reach each other, this machine and "+
			"private networks", zap.Error(err))
	}
	return nil
}

// resolvers are the name servers of a worker; none: the engine's.
func (d *Docker) resolvers() []string {
	d.fencing.Lock()
	defer d.fencing.Unlock()
	if d.fence.egress != nil && d.fence.egress.Closed {
		return []string{deadResolver}
	}
	return nil
}

// putUp puts the rules in place of those of before.
func (d *Docker) putUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.limits.operation)
	defer cancel()
	id := d.used().id
	for {
		r, _, err := d.rulesOf(ctx, id)
		if err != nil {
			return err
		}
		batches, err := r.batches()
		if err != nil {
			return refused("firewall of "+d.network, "%w", err)
		}
		done, err := d.handOver(ctx, batches)
		switch {
		case err != nil:
			return err
		case done.Used < 0:
			return &Error{
				Kind: ErrNetwork, Doing: "firewall of " + d.network, Cause: errors.New(done.Why),
				Next: "the kernel of the engine's host needs nf_tables with the families inet and bridge (modprobe " +
					"nf_tables, nf_tables_bridge)",
			}
		}
		asked := addresses(done.Nameservers)
		if !r.closed && !slices.Equal(asked, r.nameservers) {
			d.fence.nameservers = asked
			continue
		}
		if d.fence.at.IsZero() {
			d.log.Info("the firewall of the workers' network is up", zap.String("network", d.network),
				zap.Bool("public_addresses", !r.closed), zap.Int("by", done.Used))
		}
		d.fence.network, d.fence.bridge, d.fence.rules, d.fence.at = id, r.bridge, r, time.Now()
		return nil
	}
}

// addresses are those of texts that are some.
func addresses(texts []string) (all []netip.Addr) {
	for _, t := range texts {
		if a, err := netip.ParseAddr(t); err == nil {
			all = append(all, a.WithZone(""))
		}
	}
	return all
}

// rulesOf asks the engine what stands on the network, and how many workers do.
func (d *Docker) rulesOf(ctx context.Context, id string) (r rules, workers int, err error) {
	info, err := d.api.NetworkInspect(ctx, id, network.InspectOptions{})
	if cerrdefs.IsNotFound(err) {
		return r, 0, err // as the start of a container says it: then it is made anew
	}
	if err != nil {
		return r, 0, failure("network "+d.network, err)
	}
	e := d.fence.egress
	r = rules{
		fleet: d.fleet, bridge: bridgeOf(info), stale: d.fence.bridge, doors: slices.Clone(e.Doors),
		nameservers: d.fence.nameservers, closed: e.Closed,
	}
	for _, c := range info.IPAM.Config {
		if p, err := netip.ParsePrefix(c.Subnet); err == nil {
			r.subnets = append(r.subnets, p)
		}
	}
	there, err := d.api.ContainerList(ctx,
		apicontainer.ListOptions{Filters: filters.NewArgs(filters.Arg("network", id))})
	if err != nil {
		return r, 0, failure("list containers on "+d.network, err)
	}
	for _, c := range there {
		if c.Labels[LabelAttempt] != "" {
			workers++
		}
		if c.Labels[LabelAttempt] != "" || c.NetworkSettings == nil {
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

// bridgeOf names the interface of a network: as the engine does unless it was told another one.
func bridgeOf(n network.Inspect) string {
	if name := n.Options["com.docker.network.bridge.name"]; name != "" {
		return name
	}
	return "br-" + n.ID[:min(12, len(n.ID))]
}

// Unconfine removes the rules that Confine has put up.
func (d *Docker) Unconfine(ctx context.Context) error {
	d.fencing.Lock()
	bridge := d.fence.bridge
	d.fencing.Unlock()
	return d.takeDown(ctx, bridge)
}

// RemoveRules removes the rules of networks that are gone, by a container of an image with the worker's program
// in it: for whoever has removed a director's network past RemoveNetwork.
func (d *Docker) RemoveRules(ctx context.Context, image, workerBinary string) error {
	d.fencing.Lock()
	defer d.fencing.Unlock()
	d.fence.egress = &Egress{Image: image, WorkerBinary: workerBinary}
	_, err := d.handOver(ctx, nil)
	return err
}

// takeDown removes this fleet's rules of networks, by the names of their bridges, if Confine was called.
func (d *Docker) takeDown(ctx context.Context, bridges ...string) (err error) {
	d.fencing.Lock()
	defer d.fencing.Unlock()
	for _, b := range bridges {
		if d.fence.egress == nil || b == "" {
			continue
		}
		batch, failed := rules{fleet: d.fleet, bridge: b}.removal()
		if failed == nil {
			_, failed = d.handOver(ctx, [][]byte{batch})
		}
		err = errors.Join(err, failed)
	}
	d.fence.network, d.fence.bridge = "", ""
	return err
}

// handOver runs the program that hands rules to the kernel, in the network of the engine's host, and removes
// its container. It has no right but that.
func (d *Docker) handOver(ctx context.Context, batches [][]byte) (done fence.Done, err error) {
	e := d.fence.egress
	config := &apicontainer.Config{
		Image: e.Image, Entrypoint: append([]string{WorkerPath, fence.Command}, fence.Args(batches...)...), User: "0:0",
		WorkingDir:  "/",
		Healthcheck: &apicontainer.HealthConfig{Test: []string{"NONE"}},
		// an image may have them: it is no worker
		Labels: map[string]string{LabelFence: d.fleet, LabelFleet: "", LabelAttempt: ""},
	}
	host := &apicontainer.HostConfig{
		NetworkMode: "host", UsernsMode: "host", // of the machine's own users: others have no right in its network
		CapDrop: []string{"ALL"}, CapAdd: []string{"NET_ADMIN"}, SecurityOpt: []string{"no-new-privileges"},
		LogConfig: apicontainer.LogConfig{Type: "json-file"}, Resources: apicontainer.Resources{Memory: 64 << 20},
	}
	doing := "firewall of " + d.network
	p, err := d.programOf(Spec{AttemptID: doing, WorkerBinary: e.WorkerBinary})
	if err != nil {
		return done, err
	}
	host.Mounts = []mount.Mount{p.mount(d.fleet, true)}
	d.sweep(ctx)
	made, err := d.createAside(ctx, config, host)
	if cerrdefs.IsNotFound(err) {
		if err := d.pull(ctx, e.Image); err != nil {
			return done, err
		}
		made, err = d.createAside(ctx, config, host)
	}
	if err != nil {
		return done, failure(doing, err)
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.limits.confirm)
		defer cancel()
		if failed := d.api.ContainerRemove(ending, made.ID, apicontainer.RemoveOptions{Force: true}); failed != nil &&
			!cerrdefs.IsNotFound(failed) {
			d.log.Warn("a container is left that put up the firewall; the next one removes it",
				zap.String("container", made.ID), zap.Error(failed))
		}
	}()
	if err := d.provide(ctx, e.Image, p); err != nil {
		return done, err
	}
	ended, failed := d.api.ContainerWait(ctx, made.ID, apicontainer.WaitConditionNextExit)
	if err := d.api.ContainerStart(ctx, made.ID, apicontainer.StartOptions{}); err != nil {
		return done, failure(doing, err)
	}
	select {
	case err := <-failed:
		return done, failure(doing, err)
	case <-ended:
	}
	return d.readDone(ctx, made.ID)
}

// readDone reads what the program has printed.
func (d *Docker) readDone(ctx context.Context, id string) (done fence.Done, err error) {
	doing := "firewall of " + d.network
	log, err := d.api.ContainerLogs(ctx, id, apicontainer.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		return done, failure(doing, err)
	}
	defer log.Close()
	var stdout, stderr bytes.Buffer
	if _, err := stdcopy.StdCopy(&stdout, &stderr, log); err != nil {
		return done, failure(doing, err)
	}
	if err := json.Unmarshal(stdout.Bytes(), &done); err != nil {
		return done, failure(doing, fmt.Errorf("%w: %s", err, strings.TrimSpace(stdout.String()+" "+stderr.String())))
	}
	return done, nil
}

// sweep removes what a process that was killed has left of it, and of the helpers that files go through.
func (d *Docker) sweep(ctx context.Context) {
	for _, label := range []string{LabelFence, labelHelper} {
		old, err := d.api.ContainerList(ctx,
			apicontainer.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", label+"="+d.fleet))})
		if err != nil {
			return // what is done next fails for the same reason
		}
		for _, c := range old {
			if time.Since(time.Unix(c.Created, 0)) > d.limits.operation {
				// those of a worker that is there stay
				_ = d.api.ContainerRemove(ctx, c.ID, apicontainer.RemoveOptions{Force: true, RemoveVolumes: true})
			}
		}
	}
}
