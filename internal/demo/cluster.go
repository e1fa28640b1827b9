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
)

// cluster is the throw-away Kubernetes of tools/kube, beside the director: the demo runs in its network, and
// its node is this machine. Each run has a namespace of its own, which is named as the fleet.
type cluster struct {
	kubetest.Cluster
	fleet string
	dir   string               // of the run
	seen  map[string]time.Time // file of a checkout → when it was first there
}

// clusterImage has worker and agent: tools/kube/demo.sh makes it, and the node imports it.
const clusterImage = "retake.test/demo:1"

func openCluster(fleet, dir string) (*cluster, error) {
	c, err := kubetest.Find()
	if err != nil {
		return nil, fmt.Errorf("demo: %w; make kube-demo does all of it", err)
	}
	return &cluster{Cluster: c, fleet: fleet, dir: dir, seen: map[string]time.Time{}}, nil
}

// installAgent makes the namespace of the run; the image has the agent.
func (c *cluster) installAgent(ctx context.Context, _ string) (string, error) {
	if _, err := c.Kubectl(ctx, "", "create", "namespace", c.fleet); err != nil {
		return "", fmt.Errorf("demo: %w", err)
	}
	return agentPath, nil
}

func (c *cluster) gateway(context.Context) (string, error) { return kubetest.Address, nil }

func (c *cluster) settings(s *testbed) string {
	return fmt.Sprintf("runtime = %q\nimage = %q\nuser = %q\nmemory = %q\ncpus = 1.0\n", runtimeKubernetes,
		clusterImage, s.user, memoryLimit)
}

func (c *cluster) sections(s *testbed) (string, error) {
	path := filepath.Join(c.dir, "pod.yaml")
	if err := os.WriteFile(path, []byte(podTemplate(s)), 0o600); err != nil {
		return "", fmt.Errorf("demo: %w", err)
	}
	return fmt.Sprintf("[kubernetes]\nnamespace = %q\nkubeconfig = %q\nworker_image = %q\npod_template = %q\naddress "+
		"= %q\n[workspace]\ntransport = \"sync\"\ncheckpoint_seconds = %d\n",
		c.fleet, c.Kubeconfig(), clusterImage, path, kubetest.Address, checkpointSeconds), nil
}

// podTemplate shows pods what a worker needs of this machine, with the build cache at /cache. The node is
// small: pods ask for less than they may use.
func podTemplate(s *testbed) string {
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

// env: the image has nothing that says where home is.
func (c *cluster) env(*testbed) map[string]string {
	return map[string]string{"HOME": "/tmp", "GOCACHE": "/cache"}
}

// podEvent is what the demo reads of kubectl's watch.
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

// recordEvents writes down what the API tells of pods, while it happens.
func (c *cluster) recordEvents() *containerLog {
	ctx, cancel := context.WithCancel(context.Background())
	l := &containerLog{end: cancel}
	l.wg.Go(func() {
		if err := c.watch(ctx, l); ctx.Err() == nil {
			l.mu.Lock()
			l.err = fmt.Errorf("demo: the watch of the pods broke off: %w", err)
			l.mu.Unlock()
		}
	})
	return l
}

func (c *cluster) watch(ctx context.Context, l *containerLog) error {
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
		pods[e.Object.Metadata.UID] = l.follow(pods[e.Object.Metadata.UID], e)
	}
}

// podState is how far a pod has come.
type podState int

const (
	podMade podState = iota + 1
	podRuns
	podOver
)

// follow adds what is new of a pod.
func (l *containerLog) follow(was podState, e podEvent) (now podState) {
	one := containerEvent{
		attempt: e.Object.Metadata.Labels[retake.LabelAttempt],
		task:    e.Object.Metadata.Annotations[retake.LabelTask], at: time.Now(),
	}
	if one.attempt == "" {
		return was
	}
	add := func(to podState, action string) {
		if was < to {
			one.action = action
			l.add(one)
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

// checkpointSeconds is how often a worker sends what it has made.
const checkpointSeconds = 2

// keeps: it has been in the pod for so long that a checkpoint has it.
func (c *cluster) keeps(_ *testbed, file string) (bool, error) {
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

func (c *cluster) inject(ctx context.Context, attempt string, h fault) error {
	uid, err := c.Kubectl(ctx, "", "-n", c.fleet, "get", "pods", "-l", retake.LabelAttempt+"="+attempt, "-o",
		"jsonpath={.items[*].metadata.uid}")
	if err != nil {
		return fmt.Errorf("demo: %s: %w", attempt, err)
	}
	pid, err := c.FirstProcess(uid)
	if err == nil {
		err = syscall.Kill(pid, map[fault]syscall.Signal{faultKill: syscall.SIGKILL, faultFreeze: syscall.SIGSTOP}[h])
	}
	if err != nil {
		return fmt.Errorf("demo: %s: %s: %w", attempt, h, err)
	}
	return nil
}

// workers lists what the run's attempts are made of. A pod that is gone may be listed for a moment.
func (c *cluster) workers(ctx context.Context) ([]string, error) {
	return c.names(ctx, "jobs,pods,secrets")
}

func (c *cluster) names(ctx context.Context, kinds string) ([]string, error) {
	said, err := c.Kubectl(ctx, "", "-n", c.fleet, "get", kinds, "-l", retake.LabelAttempt, "-o", "name")
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return strings.Fields(said), nil
}

// clear removes the run's namespace, and waits until nothing of it is left.
func (c *cluster) clear(ctx context.Context) error {
	_, err := c.Kubectl(ctx, "", "delete", "namespace", c.fleet, "--ignore-not-found", "--wait", "--timeout=60s")
	return err
}

func (c *cluster) close() error { return nil }

var _ host = (*cluster)(nil)
