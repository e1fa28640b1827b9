package kubernetes

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"retake/internal/container"
	"retake/internal/container/containertest"
)

// role returns a role with exactly the rights in Needed.
func role(namespace string) string {
	var rules strings.Builder
	for _, r := range Needed() {
		resource := r.Resource
		if r.Subresource != "" {
			resource += "/" + r.Subresource
		}
		fmt.Fprintf(&rules, "- {apiGroups: [%q], resources: [%q], verbs: [%q]}\n", r.Group, resource, r.Verb)
	}
	return `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: director, namespace: ` + namespace + `}
rules:
` + rules.String() + `---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: director, namespace: ` + namespace + `}
subjects: [{kind: User, name: retake-director, apiGroup: rbac.authorization.k8s.io}]
roleRef: {kind: Role, name: director, apiGroup: rbac.authorization.k8s.io}
`
}

// counter counts requests by the right that each needs.
type counter struct {
	next http.RoundTripper
	mu   *sync.Mutex
	used map[Right]int
}

func (c counter) RoundTrip(r *http.Request) (*http.Response, error) {
	// api/v1/namespaces/N/RESOURCE[/NAME[/SUB]], apis/GROUP/v1/…
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := ""
	if parts[0] == "apis" {
		group, parts = parts[1], parts[1:]
	}
	if len(parts) > 4 {
		right := Right{Group: group, Resource: parts[4]}
		if len(parts) > 6 {
			right.Subresource = parts[6]
		}
		right.Verb = map[string]string{
			"POST": "create", "DELETE": "delete", "PATCH": "patch", "PUT": "update",
			"GET": "get",
		}[r.Method]
		if r.Method == "GET" && len(parts) == 5 {
			if right.Verb = "list"; r.URL.Query().Get("watch") != "" {
				right.Verb = "watch"
			}
		}
		c.mu.Lock()
		c.used[right]++
		c.mu.Unlock()
	}
	return c.next.RoundTrip(r)
}

// The suite needs exactly the rights in Needed. It runs as a user with only these rights, and the cluster refuses all
// other requests.
func TestConformanceOnANode(t *testing.T) {
	n := onNode(t)
	n.kubectl(t, role(n.namespace), "apply", "-f", "-")
	var mu sync.Mutex
	used := map[Right]int{}
	limited := func(fleet string) Options {
		o := n.options(fleet)
		o.Kubeconfig, o.Sample = filepath.Join(n.dir, "director.conf"), n.spec(t, "exit", "0")
		o.wrap = func(next http.RoundTripper) http.RoundTripper { return counter{next, &mu, used} }
		return o
	}
	t.Run("Suite", func(t *testing.T) { containertest.Run(t, n.subject(limited)) })
	for _, r := range Needed() {
		if used[r] == 0 {
			t.Errorf("%s is granted but unused", r)
		}
		delete(used, r)
	}
	if len(used) > 0 {
		t.Errorf("used without being granted: %v", used)
	}
	seen, err := Look(t.Context(), limited("f"))
	if err != nil {
		t.Fatal(err)
	}
	if lacks, err := seen.Missing(t.Context()); err != nil || len(lacks) > 0 {
		t.Errorf("missing %v, %v", lacks, err)
	}
	if err := seen.Admits(t.Context()); err != nil {
		t.Error(err)
	}
	for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
		for resource, r := range map[string]Right{
			"jobs": {Group: "batch", Resource: "jobs"}, "pods": {Resource: "pods"}, "secrets": {Resource: "secrets"},
			"pods/log":  {Resource: "pods", Subresource: "log"},
			"pods/exec": {Resource: "pods", Subresource: "exec"}, "events": {Resource: "events"},
			"configmaps": {Resource: "configmaps"}, "services": {Resource: "services"},
		} {
			r.Verb = verb
			ok, err := seen.objects.may(t.Context(), r.Verb, r.Group, r.Resource, r.Subresource)
			if err != nil {
				t.Fatal(err)
			}
			if ok != slices.Contains(Needed(), r) {
				t.Errorf("may %s %s: %v", verb, resource, ok)
			}
		}
	}
}

// Open names one missing right, and Look names all of them.
func TestMissingRightOnANode(t *testing.T) {
	n := onNode(t)
	o := n.options("f")
	o.Kubeconfig = filepath.Join(n.dir, "director.conf")
	if _, err := Open(t.Context(), o); !errors.Is(err, container.ErrSpec) ||
		!strings.Contains(err.Error(), `cannot list resource "jobs"`) {
		t.Errorf("got %v", err)
	}
	seen, err := Look(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if lacks, err := seen.Missing(t.Context()); err != nil || len(lacks) != len(Needed()) {
		t.Errorf("missing %v, %v", lacks, err)
	}
}

// Open reports why the API rejects pods.
func TestPodThatIsNotAdmitted(t *testing.T) {
	n := onNode(t)
	o := n.options("f")
	o.Sample, o.PodTemplate = n.spec(t, "exit", "0"), templateFile(t, "spec: {runtimeClassName: nope}")
	if _, err := Open(t.Context(), o); !errors.Is(err, container.ErrSpec) ||
		!strings.Contains(err.Error(), `RuntimeClass "nope" not found`) {
		t.Errorf("got %v", err)
	}
	n.kubectl(t, "", "label", "namespace", n.namespace, "pod-security.kubernetes.io/enforce=restricted")
	o.PodTemplate = ""
	openNode(t, o) // allowed at the restricted level
	o.PodTemplate = templateFile(t, "spec: {volumes: [{name: host, hostPath: {path: /}}]}")
	if _, err := Open(t.Context(), o); !errors.Is(err, container.ErrSpec) ||
		!strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
		t.Errorf("got %v", err)
	}
}

func (n *node) running(t *testing.T, k *Kubernetes) container.Spec {
	t.Helper()
	s := ensured(t, k, n.spec(t, "ignore"))
	awaitState(t, k, s.AttemptID, container.StateRunning)
	eventually(t, "the worker is ready", func() bool { return exists(n.checkout(t, s.AttemptID) + "/ready") })
	return s
}

// If a real cluster ends an attempt, Exit has the cause and the cluster's message.
func TestEndsOnANode(t *testing.T) {
	n := onNode(t)
	k := openNode(t, n.options("f"))
	pod := func(t *testing.T, id string) string {
		pods, _, err := n.admin.pods(t.Context(), ofAttempt(id))
		if err != nil || len(pods) != 1 {
			t.Fatal(pods, err)
		}
		return pods[0].Name
	}
	for _, c := range []struct {
		name  string
		do    func(t *testing.T, s container.Spec)
		cause container.EndCause
		words string
	}{
		{"evicted", func(t *testing.T, s container.Spec) {
			eviction := fmt.Sprintf(
				`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`,
				pod(t, s.AttemptID), n.namespace)
			n.kubectl(t, eviction, "create", "--raw", "/api/v1/namespaces/"+n.namespace+"/pods/"+pod(t, s.AttemptID)+
				"/eviction", "-f", "-")
		}, container.EndEvicted, "Eviction API"},
		{"deleted", func(t *testing.T, s container.Spec) {
			n.kubectl(t, "", "delete", "pod", pod(t, s.AttemptID), "--wait=false")
		}, container.EndDeleted, "deleted"},
		{"too long", func(t *testing.T, s container.Spec) {
			n.kubectl(t, "", "patch", "pod", pod(t, s.AttemptID), "--type=merge", "-p",
				`{"spec":{"activeDeadlineSeconds":1}}`)
		}, container.EndDeadline, "longer than the specified deadline"},
		{"preempted", func(t *testing.T, _ container.Spec) {
			n.kubectl(t, preemptor(t, n), "apply", "-f", "-")
		}, container.EndPreempted, "preempt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := n.running(t, k)
			c.do(t, s)
			awaitState(t, k, s.AttemptID, container.StateExited)
			exit, err := k.Stop(t.Context(), s.AttemptID, 0, nil)
			if err != nil || !exit.Known || exit.Killed || exit.Cause != c.cause ||
				!strings.Contains(strings.ToLower(exit.Words), strings.ToLower(c.words)) {
				t.Errorf("got %+v, %v", exit, err)
			}
			if !strings.HasPrefix(string(exit.Stdout), "ready\n") {
				t.Errorf("stdout = %q", exit.Stdout)
			}
		})
	}
}

// preemptor returns a more important pod that needs the CPU of an attempt.
func preemptor(t *testing.T, n *node) string {
	t.Helper()
	cpus := n.kubectl(t, "", "get", "node", "localhost", "-o", "jsonpath={.status.allocatable.cpu}")
	return fmt.Sprintf(`apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: %[1]s}
value: 1000
---
apiVersion: v1
kind: Pod
metadata: {name: important}
spec:
  priorityClassName: %[1]s
  terminationGracePeriodSeconds: 1
  containers: [{name: a, image: "retake.test/probe:1", command: [/probe, exit, "0"], resources: {requests: {cpu: %[2]q}}}]
  restartPolicy: Never
`, n.namespace, strings.TrimSpace(cpus))
}

// A quota or a full node delays the pod of an attempt, and Status.Waiting has the reason.
func TestWaitingOnANode(t *testing.T) {
	n := onNode(t)
	k := openNode(t, n.options("f"))
	huge := n.spec(t, "exit", "0")
	huge.CPUs = 100
	ensured(t, k, huge)
	eventually(t, "no room", func() bool {
		return strings.Contains(statusNow(t, k, huge.AttemptID).Waiting, "1 Insufficient cpu")
	})
	if exit, err := k.Stop(t.Context(), huge.AttemptID, time.Minute, nil); err != nil || exit.Known ||
		!strings.Contains(exit.Words, "Insufficient cpu") {
		t.Errorf("got %+v, %v", exit, err)
	}
	n.kubectl(t, "", "create", "quota", "q", "--hard=pods=0")
	time.Sleep(time.Second) // the quota's controller must first notice the new quota
	s := ensured(t, k, n.spec(t, "exit", "0"))
	eventually(t, "exceeded quota", func() bool {
		return strings.Contains(statusNow(t, k, s.AttemptID).Waiting, "exceeded quota: q")
	})
	n.kubectl(t, "", "delete", "quota", "q")
	awaitState(t, k, s.AttemptID, container.StateExited)
	if exit, err := k.Stop(t.Context(), s.AttemptID, 0, nil); err != nil || exit.ExitCode != 0 || !exit.Known {
		t.Errorf("got %+v, %v", exit, err)
	}
	n.kubectl(t, "", "create", "quota", "j", "--hard=count/jobs.batch=0")
	time.Sleep(time.Second)
	if err := k.Ensure(t.Context(), n.spec(t, "exit", "0")); !errors.Is(err, container.ErrNoRoom) {
		t.Errorf("got %v", err)
	}
}

// A node without its kubelet cannot confirm an end. Once it is back, the next call reports the complete end and
// removes all objects.
func TestLostNodeOnANode(t *testing.T) {
	n := onNode(t)
	o := n.options("f")
	k := openNode(t, o)
	s := n.running(t, k)
	n.kubelet(t, "kill")
	back := sync.OnceFunc(func() { n.kubelet(t, "start") })
	defer back()
	exit, err := k.Stop(t.Context(), s.AttemptID, 0, nil)
	if !errors.Is(err, container.ErrUnconfirmed) || exit.Known || exit.Cause != container.EndNodeLost {
		t.Errorf("got %+v, %v", exit, err)
	}
	t.Log(err)
	if n.pid(t, s.AttemptID) == 0 {
		t.Error("the attempt has ended")
	}
	back()
	eventually(t, "a confirmed end", func() bool {
		exit, err = k.Stop(t.Context(), s.AttemptID, 0, nil)
		return err == nil
	})
	if n.exists(t, s.AttemptID) || !exit.Killed {
		t.Errorf("got %+v", exit)
	}
	eventually(t, "the node is ready", func() bool {
		return strings.Contains(n.kubectl(t, "", "get", "node", "localhost"), " Ready ")
	})
}
