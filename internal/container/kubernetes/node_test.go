package kubernetes

import (
	"context"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"retake/internal/container"
	"retake/internal/container/containertest"
	"retake/internal/container/kubernetes/kubetest"
)

// node is a real single-node cluster, which make kube-test starts (tools/kube).
type node struct {
	cluster   kubetest.Cluster
	dir       string // directory of the cluster
	tools     string
	namespace string
	admin     *client
}

// onNode creates a namespace in the real cluster for a test. Without a cluster, it skips the test.
func onNode(t *testing.T) *node {
	t.Helper()
	c, err := kubetest.Find()
	if err != nil {
		t.Skipf("%v; use make kube-test", err)
	}
	tools, err := filepath.Abs("../../../tools/kube")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{cluster: c, dir: c.Dir, tools: tools, namespace: containertest.Name("t")}
	n.kubectl(t, "", "create", "namespace", n.namespace)
	t.Cleanup(func() { n.kubectl(t, "", "delete", "namespace", n.namespace, "--wait=false") })
	if n.admin, err = connect(c.Kubeconfig(), n.namespace, nil); err != nil {
		t.Fatal(err)
	}
	return n
}

// kubectl runs a command of kubectl as the cluster's administrator, and returns its output.
func (n *node) kubectl(t testing.TB, in string, args ...string) string {
	t.Helper()
	if n.namespace != "" {
		args = append([]string{"-n", n.namespace}, args...)
	}
	out, err := n.cluster.Kubectl(context.Background(), in, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// kubelet controls the node's kubelet with kill, pause, cont or start.
func (n *node) kubelet(t testing.TB, what string) {
	t.Helper()
	if out, err := exec.Command(filepath.Join(n.tools, "node-ctl.sh"), what).CombinedOutput(); err != nil {
		t.Fatalf("node-ctl.sh %s: %v: %s", what, err, out)
	}
}

func (n *node) options(fleet string) Options {
	return Options{
		Fleet: fleet, Owner: "test", Namespace: n.namespace, Kubeconfig: filepath.Join(n.dir, "kubeconfig"),
		WorkerImage: "retake.test/probe:1", Grace: 3 * time.Second,
	}
}

func openNode(t testing.TB, o Options) *Kubernetes {
	t.Helper()
	k, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

func (n *node) spec(t testing.TB, argv ...string) container.Spec {
	s := specFor(t, argv...)
	s.Image = "retake.test/probe:1"
	return s
}

// uid returns the UID of an attempt's pod, or "".
func (n *node) uid(t testing.TB, attemptID string) string {
	pods, _, err := n.admin.pods(t.Context(), ofAttempt(attemptID))
	if err != nil {
		t.Fatal(err)
	}
	if len(pods) == 0 {
		return ""
	}
	return string(pods[0].UID)
}

// pid returns the pid of an attempt's first process on this machine.
func (n *node) pid(t testing.TB, attemptID string) int {
	pid, err := n.cluster.FirstProcess(n.uid(t, attemptID))
	if err != nil {
		t.Fatalf("%s: %v", attemptID, err)
	}
	return pid
}

// checkout returns the path of an attempt's checkout on this machine.
func (n *node) checkout(t testing.TB, attemptID string) string {
	return filepath.Join(n.dir, "kubelet/pods", n.uid(t, attemptID), "volumes/kubernetes.io~empty-dir", diskVolume,
		"checkout")
}

func (n *node) exists(t testing.TB, attemptID string) bool {
	_, err := n.admin.job(context.Background(), jobName(attemptID))
	pods, _, listErr := n.admin.pods(context.Background(), ofAttempt(attemptID))
	if listErr != nil {
		t.Error(listErr)
	}
	return err == nil || len(pods) > 0
}

func (n *node) subject(o func(fleet string) Options) containertest.Subject {
	return containertest.Subject{
		Capabilities: containertest.Capabilities{Adoption: true, MemoryLimit: true, Confinement: true, Images: true},
		Fleet:        "f", Parallel: true,
		Open:  func(t testing.TB, fleet string) container.Runtime { return openNode(t, o(fleet)) },
		Spec:  func(t testing.TB, _ string) container.Spec { return n.spec(t) },
		Where: func(t testing.TB, s container.Spec) string { return n.checkout(t, s.AttemptID) },
		Kill: func(t testing.TB, attemptID string) {
			if err := syscall.Kill(n.pid(t, attemptID), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
		Exists: n.exists,
	}
}
