package director

import (
	"context"
	"errors"
	"fmt"

	"retake/internal/container"
	"retake/internal/container/kubernetes"
	"retake/internal/director/loop"
	"retake/internal/doctor"
)

// clusterSeen is a cluster that workers are to run on.
type clusterSeen struct {
	*kubernetes.Seen
	p preflight
}

var _ doctor.Cluster = (*clusterSeen)(nil)

// clusterSeen connects to it, and lists nothing: all rights that are missing are to be named, not the first.
func (p preflight) clusterSeen(ctx context.Context) (doctor.Engine, error) {
	seen, err := kubernetes.Look(ctx, clusterOptions(p.o.Config, ""))
	if err != nil {
		return nil, err
	}
	return &clusterSeen{seen, p}, nil
}

// Missing are rights, as people write them.
func (c *clusterSeen) Missing(ctx context.Context) (lacks []string, err error) {
	rights, err := c.Seen.Missing(ctx)
	for _, r := range rights {
		lacks = append(lacks, r.String())
	}
	return lacks, err
}

// Confines says that it does.
func (*clusterSeen) Confines() bool { return true }

// Cannot lists what a cluster does not keep.
func (*clusterSeen) Cannot() []string { return kubernetes.Cannot() }

// Isolation says what stands between a pod and its node, as the pod asks for it.
func (c *clusterSeen) Isolation(context.Context) (holds, lacks []string, err error) {
	holds = append(holds, fmt.Sprintf("pods run without capabilities and new privileges, as user %s, with the filter "+
		"of system calls %s", c.p.o.Config.Containers.User, c.Seccomp()))
	if class := c.RuntimeClass(); class != "" {
		holds = append(holds, "pods run in the runtime class "+class)
	} else {
		lacks = append(lacks, "pods share their node's kernel, unless its default runtime is another: a "+
			"runtimeClassName in kubernetes.pod_template, such as gVisor's, stands between")
	}
	if c.HostUsers() {
		lacks = append(lacks, "users of a pod are users of its node: hostUsers: false in kubernetes.pod_template "+
			"gives each pod its own")
	}
	return holds, lacks, nil
}

// HasImage is not known of nodes.
func (*clusterSeen) HasImage(context.Context, string) (bool, error) { return false, nil }

// Pullable is not known of nodes.
func (*clusterSeen) Pullable(context.Context, string) error { return nil }

// Gateway is where pods reach the director.
func (c *clusterSeen) Gateway(context.Context) (string, error) {
	return c.p.o.Config.Kubernetes.Address, nil
}

// Confine cannot be tried from here.
func (*clusterSeen) Confine(context.Context) error {
	return errors.New("NetworkPolicies keep it, or nobody")
}

// Close has nothing to leave.
func (*clusterSeen) Close() error { return nil }

// Try starts our own worker, which looks and ends, in a pod like those of attempts.
func (c *clusterSeen) Try(ctx context.Context, t doctor.Trial) (found doctor.Tried, err error) {
	id := trialFleet + loop.NewNonce()
	o := clusterOptions(c.p.o.Config, id)
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
