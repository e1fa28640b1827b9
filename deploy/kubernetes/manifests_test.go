// Package manifests_test checks the committed manifests without a cluster and without helm. tools/kube/chart-test.sh
// checks them with an API server.
package manifests_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"retake/internal/bus/keys"
	"retake/internal/config"
	"retake/internal/container"
	"retake/internal/container/kubernetes"
	"retake/internal/sys/publicaddr"
)

// kinds contains the permitted kinds. All of them are namespaced.
var kinds = map[string]func() metav1.Object{
	"ConfigMap":             func() metav1.Object { return &corev1.ConfigMap{} },
	"Service":               func() metav1.Object { return &corev1.Service{} },
	"ServiceAccount":        func() metav1.Object { return &corev1.ServiceAccount{} },
	"PersistentVolumeClaim": func() metav1.Object { return &corev1.PersistentVolumeClaim{} },
	"Deployment":            func() metav1.Object { return &appsv1.Deployment{} },
	"StatefulSet":           func() metav1.Object { return &appsv1.StatefulSet{} },
	"PodDisruptionBudget":   func() metav1.Object { return &policyv1.PodDisruptionBudget{} },
	"NetworkPolicy":         func() metav1.Object { return &networkingv1.NetworkPolicy{} },
	"Role":                  func() metav1.Object { return &rbacv1.Role{} },
	"RoleBinding":           func() metav1.Object { return &rbacv1.RoleBinding{} },
}

// read returns all objects by kind and name. It fails for unknown fields.
func read(t *testing.T) map[string]metav1.Object {
	t.Helper()
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	all := map[string]metav1.Object{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for text := range bytes.SplitSeq(data, []byte("\n---\n")) {
			var of metav1.TypeMeta
			if err := yaml.Unmarshal(text, &of); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if of.Kind == "" {
				continue // the comment that names the generator
			}
			made := kinds[of.Kind]
			if made == nil {
				t.Errorf("%s: kind %s", file, of.Kind)
				continue
			}
			o := made()
			if err := yaml.UnmarshalStrict(text, o); err != nil {
				t.Errorf("%s: %s: %v", file, of.Kind, err)
			}
			if o.GetNamespace() != "retake" {
				t.Errorf("%s: %s %s is in namespace %q", file, of.Kind, o.GetName(), o.GetNamespace())
			}
			all[of.Kind+" "+o.GetName()] = o
		}
	}
	return all
}

func get[T any](t *testing.T, name string) T {
	t.Helper()
	o, ok := read(t)[name].(T)
	if !ok {
		t.Fatalf("%s is missing", name)
	}
	return o
}

// The chart must not have changed since the manifests were generated from it.
func TestSums(t *testing.T) {
	sums, err := os.ReadFile("SUMS")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for s := bufio.NewScanner(bytes.NewReader(sums)); s.Scan(); {
		want, name, _ := strings.Cut(s.Text(), "  ")
		path := name // relative to SUMS, or to the root for files of the chart
		if below, ok := strings.CutPrefix(name, "deploy/"); ok {
			path = filepath.Join("..", below)
		}
		listed[path] = true
		data, err := os.ReadFile(path)
		if got := fmt.Sprintf("%x", sha256.Sum256(data)); err != nil || got != want {
			t.Errorf("%s has changed (%v): make kube-manifests", name, err)
		}
	}
	here, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir("../helm/retake", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			here = append(here, path)
		}
		return err
	})
	for _, path := range here {
		if !listed[path] {
			t.Errorf("%s is not in SUMS: make kube-manifests", path)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// The directors' Role has exactly the rights that their program needs.
func TestRole(t *testing.T) {
	needed, granted := map[string]bool{}, map[string]bool{}
	for _, r := range kubernetes.Needed() {
		needed[r.Group+" "+r.String()] = true
	}
	for _, rule := range get[*rbacv1.Role](t, "Role retake-director").Rules {
		if len(rule.ResourceNames)+len(rule.NonResourceURLs) > 0 {
			t.Errorf("%+v", rule)
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					granted[group+" "+verb+" "+resource] = true
				}
			}
		}
	}
	if !reflect.DeepEqual(needed, granted) {
		t.Errorf("granted %v\nneeded %v", granted, needed)
	}
	of := get[*rbacv1.RoleBinding](t, "RoleBinding retake-director")
	if d := get[*appsv1.Deployment](t, "Deployment retake"); of.RoleRef.Kind != "Role" ||
		of.RoleRef.Name != "retake-director" || len(of.Subjects) != 1 ||
		of.Subjects[0].Name != d.Spec.Template.Spec.ServiceAccountName {
		t.Errorf("%+v", of)
	}
}

// directorsPod returns the template of the directors' pods, and its container.
func directorsPod(t *testing.T) (corev1.PodSpec, corev1.Container) {
	t.Helper()
	d := get[*appsv1.Deployment](t, "Deployment retake")
	if *d.Spec.Replicas != 2 {
		t.Errorf("%d directors", *d.Spec.Replicas)
	}
	return d.Spec.Template.Spec, d.Spec.Template.Spec.Containers[0]
}

// configured returns the configuration that a director reads from the ConfigMap and the variables of its pod.
func configured(t *testing.T) config.Config {
	t.Helper()
	_, c := directorsPod(t)
	var env []string
	for _, v := range c.Env {
		env = append(env, v.Name+"="+strings.ReplaceAll(v.Value, "$(POD_NAME)", "retake-7c9d8f6b5-x2x4z"))
	}
	text := get[*corev1.ConfigMap](t, "ConfigMap retake").Data["retake.toml"]
	if !strings.Contains(text, "[[stage]]") {
		t.Fatalf("no stages in\n%s", text)
	}
	read, problems := config.Parse("retake.toml", []byte(text), env, nil)
	if err := problems.Err(); err != nil {
		t.Errorf("invalid configuration: %v", err)
	}
	return read
}

// The configuration must be valid and consistent with the manifests around it.
func TestConfiguration(t *testing.T) {
	c := configured(t)
	pod, container := directorsPod(t)
	mounted := map[string]bool{}
	for _, m := range container.VolumeMounts {
		mounted[m.MountPath] = true
	}
	for key, path := range map[string]string{
		"director.data_dir": c.Director.DataDir, "director.shared_dir": c.Director.SharedDir,
		"agent_bus.credentials": c.AgentBus.Credentials,
		"github.token_file":     c.GitHub.TokenFile, "kubernetes.pod_template": c.Kubernetes.PodTemplate,
	} {
		if !mounted[path] && !mounted[filepath.Dir(path)] && !mounted[filepath.Dir(filepath.Dir(path))] {
			t.Errorf("%s = %q is on no volume", key, path)
		}
	}
	if socket := filepath.Join(c.Director.DataDir, "director.sock"); len(socket) > 90 {
		t.Errorf("%s: %d bytes", socket, len(socket))
	}
	uid, gid := c.Containers.UIDGID()
	if s := pod.SecurityContext; int64(uid) != *s.RunAsUser || int64(gid) != *s.RunAsGroup || int64(gid) != *s.FSGroup {
		t.Errorf("directors run as %d:%d (%d), attempts as %d:%d", *s.RunAsUser, *s.RunAsGroup, *s.FSGroup, uid, gid)
	}
	if c.Kubernetes.WorkerImage != container.Image {
		t.Errorf("the worker comes from %s, the director from %s", c.Kubernetes.WorkerImage, container.Image)
	}
	if c.GitHub.Writes {
		t.Error("writing must be off by default")
	}
	if got := get[*corev1.ConfigMap](t, "ConfigMap retake").Data["worker-pod.yaml"]; yaml.UnmarshalStrict([]byte(got),
		&corev1.PodTemplateSpec{}) != nil {
		t.Errorf("invalid pod template: %s", got)
	}
}

// The certificate of NOTES.txt must be valid for every name by which directors, attempts and servers find a server. The
// number of servers must equal the number of replicas.
func TestBus(t *testing.T) {
	c := configured(t)
	dir := t.TempDir()
	const service = "retake-nats.retake.svc"
	made := keys.Init{
		Hosts: []string{service, "*." + service}, Port: 4222, Store: "/data",
		ServerDir: "/etc/nats/retake", Prefix: c.AgentBus.Prefix,
	}
	servers := strings.Split(c.AgentBus.URL, ",")
	for _, s := range servers {
		u, err := url.Parse(s)
		if err != nil || u.Port() != "4222" {
			t.Fatalf("%s: %v", s, err)
		}
		made.Routes = append(made.Routes, u.Hostname()+":6222")
	}
	if err := made.Make(dir); err != nil {
		t.Fatal(err)
	}
	set := get[*appsv1.StatefulSet](t, "StatefulSet retake-nats")
	if int(*set.Spec.Replicas) != len(servers) || c.AgentBus.Replicas != len(servers) ||
		set.Spec.ServiceName != "retake-nats" {
		t.Errorf("%d servers of %s, %d in agent_bus.url, %d replicas", *set.Spec.Replicas, set.Spec.ServiceName,
			len(servers), c.AgentBus.Replicas)
	}
	certificate, err := keys.Certificate(dir, []string{service})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range servers {
		u, err := url.Parse(s)
		if want := fmt.Sprintf("%s-%d.%s", set.Name, i, service); err != nil || u.Hostname() != want ||
			certificate.Leaf.VerifyHostname(want) != nil {
			t.Errorf("%s: want %s (%v)", s, want, certificate.Leaf.VerifyHostname(want))
		}
	}
	nats := set.Spec.Template.Spec
	mounted := map[string]string{}
	for _, m := range nats.Containers[0].VolumeMounts {
		mounted[m.MountPath] = m.Name
	}
	if mounted[made.Store] != "data" || mounted[made.ServerDir] != "keys" ||
		!slices.Contains(nats.Containers[0].Args, "--name") {
		t.Errorf("%v %v", mounted, nats.Containers[0].Args)
	}
	notes, err := os.ReadFile("../helm/retake/templates/NOTES.txt")
	for _, want := range []string{"--store " + made.Store, "--server-dir " + made.ServerDir, ":6222"} {
		if err != nil || !strings.Contains(string(notes), want) {
			t.Errorf("NOTES.txt lacks %s (%v)", want, err)
		}
	}
}

// Pods must comply with the restricted level of the pod security standards, and only directors may use the API.
func TestPodSecurity(t *testing.T) {
	director, _ := directorsPod(t)
	for what, pod := range map[string]corev1.PodSpec{
		"director": director,
		"bus":      get[*appsv1.StatefulSet](t, "StatefulSet retake-nats").Spec.Template.Spec,
	} {
		s := pod.SecurityContext
		if !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile == nil ||
			s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || pod.HostNetwork || pod.HostPID ||
			pod.HostIPC {
			t.Errorf("%s: %+v", what, s)
		}
		for _, c := range pod.Containers {
			if c := c.SecurityContext; *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem ||
				!slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(c.Capabilities.Add) > 0 {
				t.Errorf("%s: %+v", what, c)
			}
			if c.StartupProbe == nil || c.LivenessProbe == nil || c.ReadinessProbe == nil {
				t.Errorf("%s: a probe is missing", what)
			}
		}
		if *pod.AutomountServiceAccountToken != (what == "director") {
			t.Errorf("%s: API token mounted: %v", what, *pod.AutomountServiceAccountToken)
		}
	}
}

// An attempt can reach the public addresses, as with containers.egress = "all" on one machine, and the bus, the proxy
// and DNS. It accepts no connections.
func TestNetworkOfAttempts(t *testing.T) {
	p := get[*networkingv1.NetworkPolicy](t, "NetworkPolicy retake-attempts").Spec
	if of := p.PodSelector.MatchExpressions; len(of) != 1 || of[0].Key != container.LabelAttempt ||
		of[0].Operator != metav1.LabelSelectorOpExists {
		t.Errorf("it selects %+v", of)
	}
	if len(p.Ingress) > 0 || len(p.PolicyTypes) != 2 {
		t.Errorf("%+v can reach the pod (%v)", p.Ingress, p.PolicyTypes)
	}
	var reached []string
	for _, e := range p.Egress {
		var ports []string
		for _, port := range e.Ports {
			ports = append(ports, port.Port.String())
		}
		for _, to := range e.To {
			switch {
			case to.IPBlock != nil:
				var special []string
				for _, prefix := range publicaddr.Special4 {
					special = append(special, prefix.String())
				}
				if strings.Contains(to.IPBlock.CIDR, ":") {
					special = nil
					for _, prefix := range publicaddr.Special6 {
						special = append(special, prefix.String())
					}
				}
				if !slices.Equal(to.IPBlock.Except, special) {
					t.Errorf("in %s the pod can reach all but %v, want %v", to.IPBlock.CIDR, to.IPBlock.Except, special)
				}
				reached = append(reached, to.IPBlock.CIDR)
			default:
				reached = append(reached, to.PodSelector.MatchLabels["app.kubernetes.io/component"]+
					to.PodSelector.MatchLabels["k8s-app"]+" "+strings.Join(ports, ","))
			}
		}
	}
	if want := []string{
		"bus 4222", "kube-dns 53,53", "director 8732", "0.0.0.0/0",
		publicaddr.Global6.String(),
	}; !slices.Equal(reached, want) {
		t.Errorf("the pod can reach %q, want %q", reached, want)
	}
}
