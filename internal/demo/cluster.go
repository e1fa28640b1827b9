package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	retake "retake/internal/container"
	"retake/internal/container/kubernetes/kubetest"
	"retake/internal/testbed"
)

// cluster is the throwaway Kubernetes cluster of tools/kube. The demo runs in its network, and its node is this
// machine. Each run has a separate namespace, named after the fleet.
type cluster struct {
	kubetest.Cluster
	fleet string
	dir   string               // directory of the run
	seen  map[string]time.Time // when each file of a checkout was first seen
}

// clusterImage contains worker and agent. tools/kube/demo.sh builds the image, and the node imports it.
const (
	clusterImage = "retake.test/demo:1"
	clusterAgent = "/demo-agent"
)

func openCluster(fleet, dir string) (*cluster, error) {
	c, err := kubetest.Find()
	if err != nil {
		return nil, fmt.Errorf("demo: %w; use make kube-demo, which does all steps", err)
	}
	return &cluster{Cluster: c, fleet: fleet, dir: dir, seen: map[string]time.Time{}}, nil
}

// Install creates the namespace of the run. The image contains the agent.
func (c *cluster) Install(ctx context.Context, _ string) (string, error) {
	if _, err := c.Kubectl(ctx, "", "create", "namespace", c.fleet); err != nil {
		return "", fmt.Errorf("demo: %w", err)
	}
	return clusterAgent, nil
}

func (c *cluster) Gateway(context.Context) (string, error) { return kubetest.Address, nil }

func (c *cluster) settings(*world) string {
	return fmt.Sprintf("runtime = %q\nimage = %q\nuser = %q\nmemory = %q\ncpus = 1.0\n", runtimeKubernetes,
		clusterImage, testbed.User(), memoryLimit)
}

func (c *cluster) sections(s *world) (string, error) {
	path := filepath.Join(c.dir, "pod.yaml")
	if err := os.WriteFile(path, []byte(podTemplate(s)), 0o600); err != nil {
		return "", fmt.Errorf("demo: %w", err)
	}
	return fmt.Sprintf("[kubernetes]\nnamespace = %q\nkubeconfig = %q\nworker_image = %q\npod_template = %q\naddress "+
		"= %q\n[workspace]\ntransport = \"sync\"\ncheckpoint_seconds = %d\n",
		c.fleet, c.Kubeconfig(), clusterImage, path, kubetest.Address, checkpointSeconds), nil
}

// podTemplate mounts the parts of this machine that a worker needs, and the build cache at /cache. The node is small,
// so pods request less than their limits.
func podTemplate(s *world) string {
	var mounts, volumes strings.Builder
	show := func(name, source, target string, readOnly bool) {
		fmt.Fprintf(&mounts, "    - {name: %s, mountPath: %q, readOnly: %t}\n", name, target, readOnly)
		fmt.Fprintf(&volumes, "  - {name: %s, hostPath: {path: %q}}\n", name, source)
	}
	for i, m := range append([]string{s.tools.root}, s.tools.mounts...) {
		show(fmt.Sprintf("tools-%d", i), m, m, true)
	}
	show("cache", s.cache.dir, "/cache", false)
	return "spec:\n  containers:\n  - name: worker\n    resources: {requests: {cpu: 100m, memory: 128Mi}}\n    " +
		"volumeMounts:\n" + mounts.String() + "  volumes:\n" + volumes.String()
}

// env sets HOME, because the image has no home directory.
func (c *cluster) env(*world) map[string]string {
	return map[string]string{"HOME": "/tmp", "GOCACHE": "/cache"}
}

// podEvent holds the fields that the demo uses from a kubectl watch event.
type podEvent struct {
	Type   string `json:"type"` // ADDED, MODIFIED, DELETED
	Object struct {
		Metadata struct {
			UID         string            `json:"uid"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Status struct {
			ContainerStatuses []struct {
				State struct {
					Running    *struct{} `json:"running"`
					Terminated *struct{} `json:"terminated"`
				} `json:"state"`
			} `json:"containerStatuses"`
		} `json:"status"`
	} `json:"object"`
}

// Record starts recording the API's events about pods.
func (c *cluster) Record() *testbed.Record { return testbed.NewRecord(c.watch) }

func (c *cluster) watch(ctx context.Context, l *testbed.Record) error {
	out, wait, err := c.Stream(ctx, "-n", c.fleet, "get", "pods", "--watch", "--output-watch-events", "-o", "json")
	if err != nil {
		return err
	}
	defer wait()
	pods := map[string]podState{}
	for events := json.NewDecoder(out); ; {
		var e podEvent
		if err := events.Decode(&e); err != nil {
			return err
		}
		pods[e.Object.Metadata.UID] = follow(l, pods[e.Object.Metadata.UID], e)
	}
}

// podState is the progress of a pod.
type podState int

const (
	podMade podState = iota + 1
	podRuns
	podOver
)

// follow records the changes in a pod's state as events, and returns the new state.
func follow(l *testbed.Record, was podState, e podEvent) (now podState) {
	one := testbed.Event{
		Attempt: e.Object.Metadata.Labels[retake.LabelAttempt],
		Task:    e.Object.Metadata.Annotations[retake.LabelTask], At: time.Now(),
	}
	if one.Attempt == "" {
		return was
	}
	add := func(to podState, action string) {
		if was < to {
			one.Action = action
			l.Add(one)
			was = to
		}
	}
	add(podMade, "create")
	for _, s := range e.Object.Status.ContainerStatuses {
		if s.State.Running != nil || s.State.Terminated != nil {
			add(podRuns, "start")
		}
		if s.State.Terminated != nil {
			add(podOver, "die")
		}
	}
	if e.Type == "DELETED" && was == podRuns {
		add(podOver, "die")
	}
	return was
}

// checkpointSeconds is the interval at which a worker sends its checkout.
const checkpointSeconds = 2

// keeps reports whether the file has been in the pod long enough for a checkpoint.
func (c *cluster) keeps(_ *world, file string) (bool, error) {
	there, err := inCheckouts(filepath.Join(c.Dir, "kubelet", "pods", "*", "volumes", "kubernetes.io~empty-dir", "*",
		"checkout"), file)
	if err != nil || !there {
		return false, err
	}
	if c.seen[file].IsZero() {
		c.seen[file] = time.Now()
	}
	return time.Since(c.seen[file]) > 2*checkpointSeconds*time.Second, nil
}

// Kill implements host.
func (c *cluster) Kill(ctx context.Context, attempt string) error {
	return c.signal(ctx, attempt, syscall.SIGKILL)
}

// Pause implements host.
func (c *cluster) Pause(ctx context.Context, attempt string) error {
	return c.signal(ctx, attempt, syscall.SIGSTOP)
}

func (c *cluster) signal(ctx context.Context, attempt string, sig syscall.Signal) error {
	uid, err := c.Kubectl(ctx, "", "-n", c.fleet, "get", "pods", "-l", retake.LabelAttempt+"="+attempt, "-o",
		"jsonpath={.items[*].metadata.uid}")
	if err != nil {
		return err
	}
	pid, err := c.FirstProcess(uid)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, sig)
}

// Workers lists the jobs, pods and secrets of the run's attempts. A removed pod may stay in the list for a short time.
func (c *cluster) Workers(ctx context.Context) (all []testbed.Worker, err error) {
	said, err := c.Kubectl(ctx, "", "-n", c.fleet, "get", "jobs,pods,secrets", "-l", retake.LabelAttempt, "-o", "name")
	for _, name := range strings.Fields(said) {
		all = append(all, testbed.Worker{Attempt: name})
	}
	return all, err
}

// Clear deletes the run's namespace and waits until it is gone.
func (c *cluster) Clear(ctx context.Context) error {
	_, err := c.Kubectl(ctx, "", "delete", "namespace", c.fleet, "--ignore-not-found", "--wait", "--timeout=60s")
	return err
}

func (c *cluster) Close() error { return nil }

var _ host = (*cluster)(nil)
