package kubernetes

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"retake/internal/container"
)

var update = flag.Bool("update", false, "rewrite golden files")

func templateFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const queueTemplate = `
metadata:
  labels: {kueue.x-k8s.io/queue-name: coders, retake.fleet: not-this}
  annotations: {team: a}
spec:
  runtimeClassName: gvisor
  nodeSelector: {pool: agents}
  tolerations: [{key: agents, operator: Exists}]
  priorityClassName: low
  serviceAccountName: worker
  imagePullSecrets: [{name: registry}]
  containers:
  - name: worker
    imagePullPolicy: Always
    resources: {requests: {cpu: 100m}, limits: {example.com/gpu: "1"}}
    env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: tokens, key: a}}}]
    volumeMounts: [{name: cache, mountPath: /cache}]
  volumes: [{name: cache, persistentVolumeClaim: {claimName: cache}}]
`

// TestJob compares a Job with testdata. Review the difference before you use -update.
func TestJob(t *testing.T) {
	o := options("f")
	o.Grace, o.PodTemplate = 2*time.Second, templateFile(t, queueTemplate)
	objects, err := newObjects(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	s := container.Spec{
		AttemptID: "k3v9qx2m-2", Task: "acme/widgets#21", Image: "retake-dev:main", Workdir: "/workspace",
		Checkout: "/c", WorkerBinary: "/w", ReadOnly: true,
		Entrypoint: []string{container.WorkerPath, "--plan", "-", "$(HOME)"}, Memory: 2 << 30, CPUs: 1.5, Pids: 512,
		User: "1000:1001", Scratch: []string{"/scratch", "/tmp"},
		Env: []string{"A=secret"}, Stdin: []byte("secret"), Life: 25 * time.Hour,
	}
	got, err := yaml.Marshal(objects.jobOf(s, 2))
	if err != nil {
		t.Fatal(err)
	}
	golden := "testdata/job.yaml"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(got) != string(want) {
		t.Errorf("%v; got\n%s", err, got)
	}
}

// templates are the cases of TestTemplateConflicts.
var templates = []struct{ text, want string }{
	{queueTemplate, ""},
	{"spec: {restartPolicy: Never, automountServiceAccountToken: false, enableServiceLinks: false, hostNetwork: " +
		"false, securityContext: {runAsNonRoot: true, fsGroup: 7}}", ""},
	{"spec: {restartPolicy: OnFailure}", "spec.restartPolicy (Never)"},
	{"spec: {activeDeadlineSeconds: 5}", "spec.activeDeadlineSeconds"},
	{"spec: {terminationGracePeriodSeconds: 5}", "spec.terminationGracePeriodSeconds"},
	{"spec: {automountServiceAccountToken: true}", "spec.automountServiceAccountToken (false"},
	{"spec: {enableServiceLinks: true}", "spec.enableServiceLinks"},
	{
		"spec: {hostNetwork: true, hostPID: true, hostIPC: true}",
		"spec.hostNetwork (false); spec.hostPID (false); spec.hostIPC (false)",
	},
	{"spec: {shareProcessNamespace: true}", "spec.shareProcessNamespace"},
	{"spec: {securityContext: {runAsUser: 0}}", "spec.securityContext.runAsUser"},
	{"spec: {securityContext: {runAsGroup: 0}}", "spec.securityContext.runAsGroup"},
	{"spec: {securityContext: {runAsNonRoot: false}}", "spec.securityContext.runAsNonRoot"},
	{"spec: {containers: [{name: worker}, {name: other}]}", "spec.containers (only worker"},
	{"spec: {initContainers: [{name: retake-files}]}", "spec.initContainers[retake-files]"},
	{"spec: {volumes: [{name: retake-disk}]}", "spec.volumes"},
	{"spec: {containers: [{name: worker, image: x}]}", "spec.containers[worker].image"},
	{
		"spec: {containers: [{name: worker, command: [x], args: [more], workingDir: /z}]}",
		"spec.containers[worker].command (always the worker); spec.containers[worker].args (none); " +
			"spec.containers[worker].workingDir",
	},
	{"spec: {containers: [{name: worker, stdin: true}]}", "spec.containers[worker].stdin"},
	{
		"spec: {containers: [{name: worker, lifecycle: {postStart: {exec: {command: [x]}}}}]}",
		"spec.containers[worker].lifecycle",
	},
	{
		"spec: {containers: [{name: worker, livenessProbe: {exec: {command: [x]}}}]}",
		"spec.containers[worker].livenessProbe",
	},
	{
		"spec: {containers: [{name: worker, securityContext: {privileged: true}}]}",
		"spec.containers[worker].securityContext.privileged",
	},
	{
		"spec: {containers: [{name: worker, securityContext: {allowPrivilegeEscalation: true}}]}",
		"spec.containers[worker].securityContext.allowPrivilegeEscalation",
	},
	{
		"spec: {containers: [{name: worker, securityContext: {runAsUser: 0}}]}",
		"spec.containers[worker].securityContext.runAsUser",
	},
	{
		"spec: {containers: [{name: worker, securityContext: {capabilities: {add: [ALL]}}}]}",
		"spec.containers[worker].securityContext.capabilities",
	},
	{
		"spec: {containers: [{name: worker, securityContext: {readOnlyRootFilesystem: false}}]}",
		"spec.containers[worker].securityContext.readOnlyRootFilesystem",
	},
	{
		"spec: {containers: [{name: worker, resources: {limits: {cpu: 1, memory: 1Gi}}}]}",
		"spec.containers[worker].resources.limits.memory (set by containers.memory); " +
			"spec.containers[worker].resources.limits.cpu",
	},
	{"spec: {ephemeralContainers: [{name: x}]}", "spec.ephemeralContainers"},
	{"spec: {nodeSelektor: {}}", `unknown field "spec.nodeSelektor"`},
	{"kind: Pod", `unknown field "kind"`},
}

// The error names all conflicting fields of a template by path. All other fields are allowed.
func TestTemplateConflicts(t *testing.T) {
	for _, c := range templates {
		_, err := readTemplate(templateFile(t, c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

// Names are valid in the cluster and unique per attempt.
func TestNames(t *testing.T) {
	for _, c := range []struct{ id, job, label string }{
		{"k3v9qx2m-2", "retake-k3v9qx2m-2", "k3v9qx2m-2"},
		{"K3_v9.qx-2", "retake-k3-v9-qx-2-" + sum("K3_v9.qx-2"), "K3_v9.qx-2"},
		{
			strings.Repeat("a", 128), "retake-" + strings.Repeat("a", 36) + "-" + sum(strings.Repeat("a", 128)),
			strings.Repeat("a", 54) + "-" + sum(strings.Repeat("a", 128)),
		},
		{"a-", "retake-a-" + sum("a-"), "a-" + sum("a-")},
		{"acme/widgets#21", "retake-acme-widgets-21-" + sum("acme/widgets#21"), "acme-widgets-21-" +
			sum("acme/widgets#21")},
	} {
		if job, label := jobName(c.id), labelValue(c.id); job != c.job || label != c.label || len(job) > nameLength ||
			len(label) > labelLength || !nameForm.MatchString(job) || !labelForm.MatchString(label) {
			t.Errorf("%s: %s, %s", c.id, job, label)
		}
	}
}
