package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"retake/internal/config"
	"retake/internal/container"
)

// unreachable returns a kubeconfig of a cluster that does not answer.
func unreachable(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path,
		[]byte("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"https://127.0.0.1:1\"}}]\n"+
			"users: [{name: u, user: {token: t}}]\n"+
			"contexts: [{name: c, context: {cluster: c, user: u, namespace: ours}}]\ncurrent-context: c\n"), 0o600))
	return path
}

func onUnreachableCluster(t *testing.T) *Engine {
	t.Helper()
	c := config.Default()
	c.Director.DataDir, c.Containers.Runtime = t.TempDir(), config.OnKubernetes
	c.Kubernetes.Kubeconfig, c.Kubernetes.WorkerImage = unreachable(t), "w:1"
	return &Engine{Config: c, Log: zap.NewNop()}
}

// The engine waits for a cluster that does not answer, and remembers it. Another runtime opens only after the cluster
// has confirmed that no attempt runs there.
func TestClusterIsNotForgotten(t *testing.T) {
	d := onUnreachableCluster(t)
	_, err := d.open(t.Context(), "owner")
	if !errors.Is(err, container.ErrCluster) || !container.Transient(err) {
		t.Errorf("got %v", err)
	}
	d.Config.Containers.Runtime = "process"
	d.Config.Containers.SameUser = true
	_, err = d.open(t.Context(), "owner")
	if !errors.Is(err, container.ErrCluster) || !container.Transient(err) ||
		!strings.Contains(err.Error(), d.clusterFile()) {
		t.Errorf("got %v", err)
	}
	must(t, os.WriteFile(d.clusterFile(), []byte("{"), 0o600))
	if _, err = d.open(t.Context(), "owner"); err == nil || container.Transient(err) ||
		!strings.Contains(err.Error(), "remove the file") {
		t.Errorf("got %v", err)
	}
	must(t, os.Remove(d.clusterFile()))
	r, err := d.open(t.Context(), "owner")
	must(t, err)
	must(t, r.Close())
}

// A pod's grace period is the grace period of a stop, in whole seconds.
func TestGraceOfPods(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{
		0: time.Second, 500 * time.Millisecond: time.Second,
		10 * time.Second: 10 * time.Second, 10100 * time.Millisecond: 11 * time.Second,
	} {
		if got := wholeSeconds(grace); got != want {
			t.Errorf("%v: %v, want %v", grace, got, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
