package doctor

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func lookEngine(ctx context.Context, e *exam) {
	engine, err := e.Engine(ctx)
	if err != nil {
		e.problem(err.Error(), "")
		return
	}
	e.engine = engine
	if engine.Confines() {
		e.ok(engine.Name())
	} else {
		e.warn("workers are plain processes, without isolation and limits, as containers.runtime says",
			`containers.runtime = "docker", unless you trust the work`)
	}
	for _, what := range engine.Cannot() {
		e.warn(engine.Name()+": "+what, "")
	}
}

// inContainers reports whether there are any, and says so if not.
func (e *exam) inContainers() bool {
	yes := e.engine.Confines()
	if !yes {
		e.notTried("workers are no containers")
	}
	return yes
}

func lookIsolation(ctx context.Context, e *exam) {
	if !e.inContainers() {
		return
	}
	holds, lacks, err := e.engine.Isolation(ctx)
	if err != nil {
		e.problem(err.Error(), "")
	}
	for _, what := range holds {
		e.ok(what)
	}
	for _, what := range lacks {
		e.warn(what, "")
	}
	if !e.Config.Containers.ReadOnly {
		e.warn("containers.read_only = false: an agent can change the image's programs for what runs behind it, and "+
			"fill the engine's disk", "containers.scratch for the folders that it needs")
	}
}

func lookImage(ctx context.Context, e *exam) {
	if !e.inContainers() {
		return
	}
	image := e.Config.Containers.Image
	if e.cluster() != nil {
		e.image = true
		e.ok(image + " and " + e.Config.Kubernetes.WorkerImage + " are for the nodes to pull: whether they can, a " +
			"container shows below")
		return
	}
	has, err := e.engine.HasImage(ctx, image)
	e.image = has
	switch {
	case err != nil:
		e.problem(err.Error(), "")
	case has:
		e.ok(image + " is here")
	default:
		if err := e.engine.Pullable(ctx, image); err != nil {
			e.problem(image+" is not here, and its registry does not give it: "+err.Error(),
				"build it (docker build -t "+image+" .), or set containers.image to one that exists")
			return
		}
		e.ok(image + " is not here, and is pulled at the first start")
	}
}

func lookNetwork(ctx context.Context, e *exam) {
	if !e.inContainers() {
		return
	}
	if e.cluster() != nil {
		at, err := e.engine.Gateway(ctx)
		if e.gateway = at; err != nil {
			e.problem(err.Error(), "")
		} else if at == "" {
			e.ok("the cluster's own, where the bus is at " + e.Config.AgentBus.URL)
		} else {
			e.ok("the cluster's own, where pods reach this director at " + at)
		}
		return
	}
	name := e.Config.Containers.Network
	at, err := e.engine.Gateway(ctx)
	e.gateway = at
	switch {
	case err != nil:
		e.problem(err.Error(), "")
	case at == "":
		e.ok(name + " is not there yet, and is made at the first start")
	default:
		e.ok(name + ", where containers reach this machine at " + at)
	}
}

func lookEgress(ctx context.Context, e *exam) {
	if !e.inContainers() {
		return
	}
	if e.cluster() != nil {
		e.warn("what workers reach is for NetworkPolicies of the cluster to keep, which nobody here can see: "+
			"containers.egress alone keeps nothing there",
			"policies that let workers reach the bus and the director's proxy")
		return
	}
	if !e.image {
		e.notTried("the image is not here, and nothing is pulled for this")
		return
	}
	open, err := e.Config.Containers.EgressOpen(), e.engine.Confine(ctx)
	switch {
	case err == nil && open:
		e.ok("workers reach public addresses, and neither neighbours nor this machine nor private networks")
	case err == nil:
		e.ok("workers reach nothing but the bus, containers.reachable and containers.egress: " +
			strings.Join(e.Config.Containers.Egress, ", "))
	case open:
		e.warn("workers reach neighbours, services of this machine and private networks: "+err.Error(), "")
	default:
		e.problem("containers.egress cannot be kept: "+err.Error(), "")
	}
}

func lookInside(ctx context.Context, e *exam) {
	if !e.inContainers() {
		return
	}
	if !e.image {
		e.notTried("the image is not here, and nothing is pulled for this")
		return
	}
	t, err := e.trial()
	if err != nil {
		e.problem(err.Error(), "")
		return
	}
	found, err := e.engine.Try(ctx, t)
	if err != nil {
		e.problem("no container could be tried: "+err.Error(), "")
		return
	}
	for _, address := range t.Addresses {
		where := address
		if strings.HasPrefix(address, ":") {
			where = "this machine, port " + address[1:]
		}
		if why := found.Reached[address]; why != "" {
			e.problem(fmt.Sprintf("a container on %s does not reach the bus at %s: %s", found.Network, where, why),
				e.unreachable())
		} else {
			e.ok(fmt.Sprintf("a container on %s reaches the bus at %s", found.Network, where))
		}
	}
	if len(t.Addresses) == 0 {
		e.notTried("whether the bus is reached: agent_bus.listen_port is 0, any free one")
	}
	e.inside(t, found)
}

// inside tells of programs. A volume may have what is missing: it was not mounted, since that would make it.
func (e *exam) inside(t Trial, found Tried) {
	volumes := slices.ContainsFunc(e.Config.Containers.Mounts,
		func(m string) bool { return strings.HasPrefix(m, "volume:") })
	for _, name := range found.Missing {
		text := e.Config.Containers.Image + " has no program " + name + ", which a stage runs"
		if volumes {
			e.warn(text+", unless it is on a volume", "")
			continue
		}
		e.problem(text, "put it into the image, or mount the folder that has it (containers.mounts, and PATH in "+
			"containers.env)")
	}
	if len(t.Programs) > 0 && len(found.Missing) == 0 {
		e.ok("the image has " + strings.Join(t.Programs, ", "))
	}
}

// trial is what is to be looked for from inside.
func (e *exam) trial() (Trial, error) {
	t, bus := Trial{Programs: e.stagePrograms()}, e.Config.AgentBus
	if bus.URL != "" {
		for one := range strings.SplitSeq(bus.URL, ",") {
			u, err := url.Parse(strings.TrimSpace(one))
			if err != nil {
				return t, fmt.Errorf("agent_bus.url: %w", err)
			}
			port := u.Port()
			if port == "" {
				port = "4222"
			}
			t.Addresses = append(t.Addresses, net.JoinHostPort(u.Hostname(), port))
		}
		return t, nil
	}
	if bus.ListenPort == 0 {
		return t, nil
	}
	host := bus.ListenAddr
	if host == "auto" {
		host = ""
	}
	t.Addresses = []string{net.JoinHostPort(host, strconv.Itoa(bus.ListenPort))}
	t.Listen = !e.running
	return t, nil
}

// unreachable is what to do about a bus that containers do not reach.
func (e *exam) unreachable() string {
	if e.cluster() != nil {
		return "look at kubernetes.address, its Service, the NetworkPolicies between, and at the bus's server"
	}
	return "let the firewall of this machine pass what comes from the containers' network, or look at the bus's server"
}
