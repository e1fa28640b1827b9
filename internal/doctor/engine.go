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
		e.warn("containers.runtime is process: workers run as plain processes, without isolation or limits",
			`set containers.runtime = "docker", unless you trust the work`)
	}
	for _, what := range engine.Cannot() {
		e.warn(engine.Name()+": "+what, "")
	}
}

// inContainers reports whether workers run in containers. If not, it adds a finding.
func (e *exam) inContainers() bool {
	yes := e.engine.Confines()
	if !yes {
		e.notTried("workers run as plain processes")
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
		e.warn("containers.read_only = false: an agent can change programs in the image for later stages, and can "+
			"fill the engine's disk", "list writable folders in containers.scratch")
	}
}

func lookImage(ctx context.Context, e *exam) {
	if !e.inContainers() {
		return
	}
	image := e.Config.Containers.Image
	if e.cluster() != nil {
		e.image = true
		e.ok(image + " and " + e.Config.Kubernetes.WorkerImage + " are pulled by the nodes; the test container " +
			"below shows whether this works")
		return
	}
	has, err := e.engine.HasImage(ctx, image)
	e.image = has
	switch {
	case err != nil:
		e.problem(err.Error(), "")
	case has:
		e.ok(image + " is available locally")
	default:
		build := "build it from the folder that contains its Dockerfile (docker build -t " + image + " FOLDER), or " +
			"set containers.image to an existing image"
		switch answered, err := e.engine.Pullable(ctx, image); {
		case err == nil:
			e.ok(image + " is missing locally; the first start pulls it")
		case answered:
			e.problem(image+" is missing locally, and its registry does not provide it: "+err.Error(), build)
		default:
			e.problem(image+" is missing locally, and its registry does not respond: "+err.Error(),
				"check the engine's DNS, proxy and network, and run docker pull "+image+"; or "+build)
		}
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
			e.ok("the cluster's network; the bus is at " + e.Config.AgentBus.URL)
		} else {
			e.ok("the cluster's network; pods reach this director at " + at)
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
		e.ok(name + " does not exist yet; the first start creates it")
	default:
		e.ok(name + ": containers reach this machine at " + at)
	}
}

func lookEgress(ctx context.Context, e *exam) {
	if !e.inContainers() {
		return
	}
	if e.cluster() != nil {
		e.warn("the cluster's NetworkPolicies must restrict the workers' traffic, but this check cannot see them. "+
			"containers.egress alone has no effect on Kubernetes",
			"add policies that allow workers to reach the bus and the director's proxy")
		return
	}
	if !e.image {
		e.notTried("the image is missing locally, and this check does not pull images")
		return
	}
	open, err := e.Config.Containers.EgressOpen(), e.engine.Confine(ctx)
	switch {
	case err == nil && open:
		e.ok("workers can reach public addresses, but not other containers, private networks or this machine (tried " +
			"from a container)")
	case err == nil:
		e.ok("workers can reach only the bus, containers.reachable and containers.egress (tried from a container): " +
			strings.Join(e.Config.Containers.Egress, ", "))
	case open:
		e.warn("workers can reach other containers, services of this machine and private networks: "+err.Error(), "")
	default:
		e.problem("cannot enforce containers.egress: "+err.Error(), "")
	}
}

func lookInside(ctx context.Context, e *exam) {
	if !e.inContainers() {
		return
	}
	if !e.image {
		e.notTried("the image is missing locally, and this check does not pull images")
		return
	}
	t, err := e.trial()
	if err != nil {
		e.problem(err.Error(), "")
		return
	}
	found, err := e.engine.Try(ctx, t)
	if err != nil {
		e.problem("cannot run a test container: "+err.Error(), "")
		return
	}
	for _, address := range t.Addresses {
		where := address
		if strings.HasPrefix(address, ":") {
			where = "this machine, port " + address[1:]
		}
		if why := found.Reached[address]; why != "" {
			e.problem(fmt.Sprintf("a container on %s cannot reach the bus at %s: %s", found.Network, where, why),
				e.unreachable())
		} else {
			e.ok(fmt.Sprintf("a container on %s reaches the bus at %s", found.Network, where))
		}
	}
	if len(t.Addresses) == 0 {
		e.notTried("cannot test the bus: agent_bus.listen_port is 0, so the port is random")
	}
	e.inside(t, found)
}

// inside adds findings about the programs in the container. A missing program may be in a volume: the trial does not
// mount volumes, because that would create them.
func (e *exam) inside(t Trial, found Tried) {
	volumes := slices.ContainsFunc(e.Config.Containers.Mounts,
		func(m string) bool { return strings.HasPrefix(m, "volume:") })
	for _, name := range found.Missing {
		text := e.Config.Containers.Image + " does not contain the program " + name + ", which a stage runs"
		if volumes {
			e.warn(text+", unless a volume contains it", "")
			continue
		}
		e.problem(text, "add it to the image, or mount a folder that contains it (containers.mounts, and PATH in "+
			"containers.env)")
	}
	if len(t.Programs) > 0 && len(found.Missing) == 0 {
		e.ok("the image contains " + strings.Join(t.Programs, ", "))
	}
}

// trial returns the addresses and programs to check inside a container.
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

// unreachable returns the remedy if containers cannot reach the bus.
func (e *exam) unreachable() string {
	if e.cluster() != nil {
		return "check kubernetes.address, its Service, the NetworkPolicies in between, and the bus server"
	}
	return "allow traffic from the containers' network in this machine's firewall, or check the bus server"
}
