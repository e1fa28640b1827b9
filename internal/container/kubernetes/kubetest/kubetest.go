// Package kubetest gives tests and the demo administrator access to the disposable single-node cluster started by
// tools/kube. It also finds the processes of pods, which run on this machine.
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

// Variable is the environment variable with the cluster's directory. programVariable is the one with the path of the
// program that contains all parts of Kubernetes. tools/kube/run.sh sets both.
const (
	Variable        = "RETAKE_TEST_KUBE"
	programVariable = "H"
)

// ErrNone means that no test cluster is running.
var ErrNone = errors.New("no cluster is running: run the command with tools/kube/run.sh, which starts a cluster and " +
	"sets " + Variable)

// Address is this machine's address on the cluster's network. Pods can reach listeners on it.
const Address = "10.231.8.1"

// Cluster is a running cluster.
type Cluster struct {
	Dir     string
	program string
}

// Find returns the cluster of this process, or ErrNone.
func Find() (Cluster, error) {
	c := Cluster{Dir: os.Getenv(Variable), program: os.Getenv(programVariable)}
	if c.Dir == "" || c.program == "" {
		return c, ErrNone
	}
	return c, nil
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// Kubectl runs kubectl as the administrator, with in as standard input, and returns its output. The error contains the
// output.
func (c Cluster) Kubectl(ctx context.Context, in string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.program, append([]string{"kubectl", "--kubeconfig", c.Kubeconfig()}, args...)...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return string(out), err
}

// Stream runs kubectl until ctx is done. It returns the output as a stream, and a function to call after reading it.
func (c Cluster) Stream(ctx context.Context, args ...string) (out io.Reader, wait func(), err error) {
	cmd := exec.CommandContext(ctx, c.program, append([]string{"kubectl", "--kubeconfig", c.Kubeconfig()}, args...)...)
	if out, err = cmd.StdoutPipe(); err == nil {
		err = cmd.Start()
	}
	return out, func() { _ = cmd.Wait() }, err
}

// sandbox is the program that keeps a pod's network up; see tools/kube/pause.
const sandbox = "/pause"

// FirstProcess returns the pid, on this machine, of the first process in a pod's container.
func (c Cluster) FirstProcess(podUID string) (pid int, err error) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		groups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		status, _ := os.ReadFile(filepath.Join(dir, "status")) // lists the ids in all namespaces, the innermost last
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if podUID != "" && bytes.Contains(groups, []byte("pod"+podUID)) && bytes.Contains(status, []byte("\t1\n")) &&
			len(command) > 0 && !bytes.HasPrefix(command, []byte(sandbox)) {
			return strconv.Atoi(filepath.Base(dir))
		}
	}
	return 0, fmt.Errorf("cannot find the first process of pod %q", podUID)
}
