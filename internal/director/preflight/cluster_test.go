package preflight

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"retake/internal/config"
	"retake/internal/container"
)

const unreachable = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u, namespace: ours}}]
current-context: c
`

// The doctor reports a cluster that does not answer, with its address.
func TestPreflightOfAClusterThatIsAway(t *testing.T) {
	c, kubeconfig := config.Default(), filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(unreachable), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Director.DataDir, c.Containers.Runtime = t.TempDir(), config.OnKubernetes
	c.Kubernetes.Kubeconfig, c.Kubernetes.WorkerImage = kubeconfig, "w:1"
	p := preflight{Options{Config: c}}
	if _, err := p.engine(t.Context()); !errors.Is(err, container.ErrCluster) ||
		!strings.Contains(err.Error(), "https://127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
}
