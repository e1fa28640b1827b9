package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/container/kubernetes"
	"retake/internal/safefile"
	"retake/internal/sys/hidden"
)

// ClusterOptions returns the options for the cluster. They include a sample attempt. If the cluster rejects the sample,
// the director fails at startup instead of at the first attempt.
func ClusterOptions(c config.Config, owner string) kubernetes.Options {
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

// podVariable is the environment variable that contains the name of the director's pod. The Helm chart sets it.
const podVariable = "POD_NAME"

// wholeSeconds rounds d up to whole seconds, with a minimum of one, as clusters require for a grace period.
func wholeSeconds(d time.Duration) time.Duration {
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}

// cluster identifies a cluster in which our attempts may be running. It is the content of clusterFile.
type cluster struct {
	Namespace   string `json:"namespace"`
	Kubeconfig  string `json:"kubeconfig"`
	WorkerImage string `json:"worker_image"`
	Owner       string `json:"owner"`
}

func (e *Engine) clusterFile() string { return filepath.Join(e.Config.SharedDir(), "cluster.json") }

func (e *Engine) rememberCluster(o kubernetes.Options) error {
	data, err := json.Marshal(cluster{o.Namespace, o.Kubeconfig, o.WorkerImage, o.Owner})
	if err != nil {
		return err
	}
	return safefile.Write(e.clusterFile(), 0o600, append(data, '\n'))
}

// leaveCluster returns an error if attempts from an earlier configuration may still be running in a cluster, because
// the same attempt could then run twice.
func (e *Engine) leaveCluster(ctx context.Context) error {
	data, err := os.ReadFile(e.clusterFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var c cluster
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return fmt.Errorf("director: cannot read %s, which records the cluster where workers ran: if no workers are "+
			"running there, remove the file: %w", e.clusterFile(), err)
	}
	left, err := leftInCluster(ctx, kubernetes.Options{
		Fleet: e.Config.Director.Fleet, Owner: c.Owner, Namespace: c.Namespace, Kubeconfig: c.Kubeconfig,
		WorkerImage: c.WorkerImage, Grace: time.Second, Log: e.Log,
	})
	switch {
	case err != nil:
		return fmt.Errorf("director: cannot check whether workers are still running in a cluster: if the cluster is "+
			"gone, remove %s: %w", e.clusterFile(), err)
	case len(left) > 0:
		return &container.Error{
			Kind: container.ErrSpec, Doing: "open", Cause: fmt.Errorf("jobs of fleet %s are still in the cluster (%s)",
				e.Config.Director.Fleet, container.Names(left)),
			Next: fmt.Sprintf("let them finish under containers.runtime = %q, or remove them (kubectl delete "+
				"jobs -l %s=%s)", config.OnKubernetes, container.LabelFleet, e.Config.Director.Fleet),
		}
	}
	return os.Remove(e.clusterFile())
}

func leftInCluster(ctx context.Context, o kubernetes.Options) ([]container.Status, error) {
	k, err := kubernetes.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	list, err := k.List(ctx)
	return list, errors.Join(err, k.Close())
}
