package director

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"retake/internal/bus/keys"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/container/kubernetes"
	"retake/internal/safefile"
	"retake/internal/sys/hidden"
)

// openRuntime opens the runtime that containers.runtime names. A change of the runtime must not orphan attempts, so
// those in the previous runtime block the start or are ended.
func (d *daemon) openRuntime(ctx context.Context, owner string) (container.Runtime, error) {
	o := container.Options{
		Owner: owner, Runtime: d.config.Containers.Runtime, Fleet: d.config.Director.Fleet,
		Network: d.config.Containers.Network, OCI: d.config.Containers.OCIRuntime,
		Dir: filepath.Join(d.sharedDir(), "processes"), Log: d.log, SameUser: d.config.Containers.SameUser,
		Hide: d.config.Private(),
	}
	if !d.onCluster() {
		if err := d.leaveCluster(ctx); err != nil {
			return nil, err
		}
		return container.Open(ctx, o)
	}
	if err := container.LeaveMachine(ctx, o); err != nil {
		return nil, err
	}
	cluster := clusterOptions(d.config, owner)
	cluster.Log = d.log
	if err := d.rememberCluster(cluster); err != nil {
		return nil, err
	}
	return kubernetes.Open(ctx, cluster)
}

func (d *daemon) onCluster() bool { return d.config.Containers.Runtime == config.OnKubernetes }

// ownerOfAttempts returns the permanent owner name of our attempts. Normally it is the name of the data directory.
// On a cluster with a joined bus it is the name of the bus, the only thing that the directors share.
func (d *daemon) ownerOfAttempts() (string, error) {
	if !d.onCluster() || d.config.AgentBus.URL == "" {
		return d.installationOf(d.sharedDir())
	}
	k, err := keys.Load(d.config.AgentBus.Credentials)
	if err != nil {
		return "", err
	}
	return k.Workers(), nil
}

// clusterOptions returns the options for the cluster. They include a sample attempt, so that the cluster's
// objections are known at the start.
func clusterOptions(c config.Config, owner string) kubernetes.Options {
	sample := container.Spec{
		AttemptID: "sample-0", Task: "sample", Image: c.Containers.Image, Workdir: c.Containers.Workdir, Checkout: "/",
		WorkerBinary: "/", Entrypoint: []string{container.WorkerPath},
		Memory: c.Containers.MemoryBytes(), CPUs: c.Containers.CPUs, Pids: int64(c.Containers.PIDs),
		User: c.Containers.User, ReadOnly: c.Containers.ReadOnly, Scratch: c.Containers.Scratch,
	}
	return kubernetes.Options{
		Fleet: c.Director.Fleet, Owner: owner, Namespace: c.Kubernetes.Namespace, Kubeconfig: c.Kubernetes.Kubeconfig,
		WorkerImage: c.Kubernetes.WorkerImage,
		PodTemplate: c.Kubernetes.PodTemplate, Address: c.Kubernetes.Address, Pod: hidden.Getenv(podVariable),
		Grace: wholeSeconds(c.Timeouts.StopGrace), Sample: sample,
	}
}

// podVariable names the director's pod. The chart sets it.
const podVariable = "POD_NAME"

// wholeSeconds rounds up to whole seconds, and to at least one, because a cluster accepts neither fractions nor a
// zero grace period.
func wholeSeconds(d time.Duration) time.Duration {
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}

// cluster identifies a cluster in which our attempts may be running. Its file exists for as long as that is
// possible.
type cluster struct {
	Namespace   string `json:"namespace"`
	Kubeconfig  string `json:"kubeconfig"`
	WorkerImage string `json:"worker_image"`
	Owner       string `json:"owner"`
}

func (d *daemon) clusterFile() string { return filepath.Join(d.sharedDir(), "cluster.json") }

func (d *daemon) rememberCluster(o kubernetes.Options) error {
	data, err := json.Marshal(cluster{o.Namespace, o.Kubeconfig, o.WorkerImage, o.Owner})
	if err != nil {
		return err
	}
	return safefile.Write(d.clusterFile(), 0o600, append(data, '\n'))
}

// leaveCluster refuses to start while attempts of an earlier configuration may run in a cluster. Otherwise they
// would not be listed, and would run beside their successors.
func (d *daemon) leaveCluster(ctx context.Context) error {
	data, err := os.ReadFile(d.clusterFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var c cluster
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return fmt.Errorf("director: %s says in which cluster workers ran, and cannot be read: remove it if none "+
			"runs there: %w", d.clusterFile(), err)
	}
	left, err := leftInCluster(ctx, kubernetes.Options{
		Fleet: d.config.Director.Fleet, Owner: c.Owner, Namespace: c.Namespace, Kubeconfig: c.Kubeconfig,
		WorkerImage: c.WorkerImage, Grace: time.Second, Log: d.log,
	})
	switch {
	case err != nil:
		return fmt.Errorf("director: workers ran in a cluster, and whether any is left cannot be told; if the "+
			"cluster is gone, remove %s: %w", d.clusterFile(), err)
	case len(left) > 0:
		return &container.Error{
			Kind: container.ErrSpec, Doing: "open", Cause: fmt.Errorf("jobs of fleet %s are still in the cluster (%s)",
				d.config.Director.Fleet, container.Names(left)),
			Next: fmt.Sprintf("let them finish under containers.runtime = %q, or remove them (kubectl delete "+
				"jobs -l %s=%s)", config.OnKubernetes, container.LabelFleet, d.config.Director.Fleet),
		}
	}
	return os.Remove(d.clusterFile())
}

func leftInCluster(ctx context.Context, o kubernetes.Options) ([]container.Status, error) {
	k, err := kubernetes.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	list, err := k.List(ctx)
	return list, errors.Join(err, k.Close())
}

// sayEgressOfCluster logs what restricts the workers' network access on a cluster, because the director cannot.
func (d *daemon) sayEgressOfCluster() {
	c := d.setup().Containers
	if !d.onCluster() {
		return
	}
	if c.EgressOpen() && len(c.Reachable) == 0 {
		d.log.Info("what workers reach is for the cluster's NetworkPolicies to keep")
		return
	}
	d.log.Warn("containers.egress and containers.reachable are kept by NetworkPolicies of the cluster alone, which "+
		"this director does not make",
		zap.Strings("egress", c.Egress), zap.Strings("reachable", c.Reachable),
		zap.String("see", "docs/decisions/0086-attempts-on-kubernetes.md"))
}
