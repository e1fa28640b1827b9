package preflight

import (
	"context"
	"errors"
	"fmt"

	"retake/internal/container"
	"retake/internal/container/kubernetes"
	"retake/internal/director/engine"
	"retake/internal/director/loop"
	"retake/internal/doctor"
)

// clusterSeen is the cluster on which workers will run.
type clusterSeen struct {
	*kubernetes.Seen
	p preflight
}

var _ doctor.Cluster = (*clusterSeen)(nil)

// clusterSeen connects to the cluster without listing anything. It succeeds even without rights, so that the doctor can
// report all missing rights.
func (p preflight) clusterSeen(ctx context.Context) (doctor.Engine, error) {
	seen, err := kubernetes.Look(ctx, engine.ClusterOptions(p.o.Config, ""))
	if err != nil {
		return nil, err
	}
	return &clusterSeen{seen, p}, nil
}

// Missing lists the missing rights as strings.
func (c *clusterSeen) Missing(ctx context.Context) (lacks []string, err error) {
	rights, err := c.Seen.Missing(ctx)
	for _, r := range rights {
		lacks = append(lacks, r.String())
	}
	return lacks, err
}

// Confines returns true, because workers run in the containers of pods.
func (*clusterSeen) Confines() bool { return true }

// Cannot lists restrictions that a cluster does not enforce.
func (*clusterSeen) Cannot() []string { return kubernetes.Cannot() }

// Isolation describes what isolates a pod from its node, according to the pod's own settings.
func (c *clusterSeen) Isolation(context.Context) (holds, lacks []string, err error) {
	holds = append(holds, fmt.Sprintf("pods run without capabilities or new privileges, as user %s, with system call "+
		"filter %s", c.p.o.Config.Containers.User, c.Seccomp()))
	if class := c.RuntimeClass(); class != "" {
		holds = append(holds, "pods run in the runtime class "+class)
	} else {
		lacks = append(lacks, "pods share their node's kernel, unless its default runtime isolates them: to separate "+
			"them, set a runtimeClassName, such as one for gVisor, in kubernetes.pod_template")
	}
	if c.HostUsers() {
		lacks = append(lacks, "a pod's users are also users of its node: to separate them, set hostUsers to false in "+
			"kubernetes.pod_template")
	}
	return holds, lacks, nil
}

// HasImage returns false, because the nodes' images are unknown.
func (*clusterSeen) HasImage(context.Context, string) (bool, error) { return false, nil }

// Pullable returns false and nil, because the nodes' rights to pull are unknown.
func (*clusterSeen) Pullable(context.Context, string) (bool, error) { return false, nil }

// Gateway returns the address at which pods reach the director.
func (c *clusterSeen) Gateway(context.Context) (string, error) {
	return c.p.o.Config.Kubernetes.Address, nil
}

// Confine returns an error, because only the cluster's NetworkPolicies can restrict the network.
func (*clusterSeen) Confine(context.Context) error {
	return errors.New("only the cluster's NetworkPolicies can enforce containers.egress")
}

// Close does nothing.
func (*clusterSeen) Close() error { return nil }

// Try runs our worker in a pod like an attempt's pod. The worker checks its environment and exits.
func (c *clusterSeen) Try(ctx context.Context, t doctor.Trial) (found doctor.Tried, err error) {
	id := trialFleet + loop.NewNonce()
	o := engine.ClusterOptions(c.p.o.Config, id)
	o.Fleet, o.Sample = id, container.Spec{}
	in, err := kubernetes.Open(ctx, o)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	spec := trialSpec(c.p.o.Config, id, "/", "/", nil)
	found = doctor.Tried{Reached: map[string]string{}, Network: "the cluster's network"}
	return tryIn(ctx, in, spec, t, found, c.p.o.Config.Kubernetes.Address, "")
}
