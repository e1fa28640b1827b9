// Package kubetest reaches the throw-away cluster of one node that tools/kube starts, as its administrator, and
// the processes of its pods, which are this machine's: for tests, and for the demo.
package kubetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Variable has the cluster's folder; tools/kube/run.sh sets it, and programVariable, the path of the program
// that is all parts of a Kubernetes.
const (
	Variable        = "RETAKE_TEST_KUBE"
	programVariable = "H"
)

// ErrNone: there is no such cluster.
var ErrNone = errors.New("no cluster was started: tools/kube/run.sh runs a command beside one, and sets " + Variable)

// Address is this machine's in the cluster's network: what listens there is reached by pods.
const Address = "10.231.8.1"

// Cluster is one that runs.
type Cluster struct {
	Dir     string
	program string
}

// Find is the cluster beside which this process runs; else ErrNone.
func Find() (Cluster, error) {
	c := Cluster{Dir: os.Getenv(Variable), program: os.Getenv(programVariable)}
	if c.Dir == "" || c.program == "" {
		return c, ErrNone
	}
	return c, nil
}

// Kubeconfig is the path of the administrator's.
func (c Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// Kubectl runs kubectl as the administrator, with in as its input, and returns what it prints. The error has that, too.
func (c Cluster) Kubectl(ctx context.Context, in string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.program, append([]string{"kubectl", "--kubeconfig", c.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return string(out), err
}

// Stream runs kubectl until ctx ends, and returns its output while it comes, and what to call when nobody reads on.
func (c Cluster) Stream(ctx context.Context, args ...string) (out io.Reader, wait func(), err error) {
	cmd := exec.CommandContext(ctx, c.program, append([]string{"kubectl", "--kubeconfig", c.Kubeconfig()}, args...)...)
	if out, err = cmd.StdoutPipe(); err == nil {
		err = cmd.Start()
	}
	return out, func() { _ = cmd.Wait() }, err
}

// sandbox is what the node keeps a pod's network up with: tools/kube/pause.
const sandbox = "/pause"

// FirstProcess is the id, as this machine knows it, of the process that is the first one of a pod's container.
func (c Cluster) FirstProcess(podUID string) (pid int, err error) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		groups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		status, _ := os.ReadFile(filepath.Join(dir, "status")) // has ids in all namespaces, the innermost last
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if podUID != "" && bytes.Contains(groups, []byte("pod"+podUID)) && bytes.Contains(status, []byte("\t1\n")) &&
			len(command) > 0 && !bytes.HasPrefix(command, []byte(sandbox)) {
			return strconv.Atoi(filepath.Base(dir))
		}
	}
	return 0, fmt.Errorf("no first process of pod %q was found", podUID)
}
