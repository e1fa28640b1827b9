package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"retake/internal/container"
)

// readTemplate reads the operator's pod template, with metadata and spec as in a Deployment. Its error names all fields
// that conflict with an attempt's needs.
func readTemplate(path string) (corev1.PodTemplateSpec, error) {
	var t corev1.PodTemplateSpec
	if path == "" {
		return t, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return t, &container.Error{
			Kind: container.ErrSpec, Doing: "pod template", Cause: err,
			Next: "correct kubernetes.pod_template",
		}
	}
	if err := strictly(data, &t); err != nil {
		return t, &container.Error{
			Kind: container.ErrSpec, Doing: "pod template " + path, Cause: err,
			Next: "write metadata (labels, annotations) and spec, as in the template of a Deployment",
		}
	}
	if wrong := conflicts(t); len(wrong) > 0 {
		return t, &container.Error{
			Kind: container.ErrSpec, Doing: "pod template " + path,
			Cause: fmt.Errorf("these fields conflict with an attempt's needs: %s", strings.Join(wrong, "; ")),
			Next:  "remove these fields",
		}
	}
	return t, nil
}

// strictly decodes YAML and rejects unknown, repeated and misplaced fields.
func strictly(data []byte, into any) error {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return err
	}
	unknown, err := json.UnmarshalStrict(asJSON, into)
	return errors.Join(append(unknown, err)...)
}

func isSet[T comparable](p *T, other T) bool { return p != nil && *p != other }

// parts holds the sections of a template that the rules check. Sections missing from the template are empty.
type parts struct {
	spec     corev1.PodSpec
	pod      corev1.PodSecurityContext
	own      corev1.Container // the worker
	security corev1.SecurityContext
}

func partsIn(t corev1.PodTemplateSpec) parts {
	p := parts{spec: t.Spec, own: workerIn(t.Spec)}
	if c := t.Spec.SecurityContext; c != nil {
		p.pod = *c
	}
	if c := p.own.SecurityContext; c != nil {
		p.security = *c
	}
	return p
}

const ownPath = "spec.containers[" + workerName + "]."

// rules lists the fields that a template must leave to this package, with their required value or the reason.
var rules = []struct {
	path, want string
	broken     func(parts) bool
}{
	{"spec.restartPolicy", "Never", func(p parts) bool {
		return p.spec.RestartPolicy != "" && p.spec.RestartPolicy != corev1.RestartPolicyNever
	}},
	{
		"spec.activeDeadlineSeconds", "set by timeouts.worker_watchdog_seconds",
		func(p parts) bool { return p.spec.ActiveDeadlineSeconds != nil },
	},
	{
		"spec.terminationGracePeriodSeconds", "set by timeouts.stop_grace_seconds",
		func(p parts) bool { return p.spec.TerminationGracePeriodSeconds != nil },
	},
	{
		"spec.automountServiceAccountToken", "false, because agents must not use the API",
		func(p parts) bool { return isSet(p.spec.AutomountServiceAccountToken, false) },
	},
	{"spec.enableServiceLinks", "false", func(p parts) bool { return isSet(p.spec.EnableServiceLinks, false) }},
	{"spec.hostNetwork", "false", func(p parts) bool { return p.spec.HostNetwork }},
	{"spec.hostPID", "false", func(p parts) bool { return p.spec.HostPID }},
	{"spec.hostIPC", "false", func(p parts) bool { return p.spec.HostIPC }},
	{
		"spec.shareProcessNamespace", "false, because a worker's processes must end with it",
		func(p parts) bool { return isSet(p.spec.ShareProcessNamespace, false) },
	},
	{
		"spec.securityContext.runAsUser", "set by containers.user",
		func(p parts) bool { return p.pod.RunAsUser != nil },
	},
	{
		"spec.securityContext.runAsGroup", "set by containers.user",
		func(p parts) bool { return p.pod.RunAsGroup != nil },
	},
	{"spec.securityContext.runAsNonRoot", "true", func(p parts) bool { return isSet(p.pod.RunAsNonRoot, true) }},
	{"spec.ephemeralContainers", "none", func(p parts) bool { return len(p.spec.EphemeralContainers) > 0 }},
	{
		"spec.containers", "only " + workerName + ", because a pod ends with its last container (an init container " +
			"with restartPolicy Always ends with the worker)",
		func(p parts) bool {
			return slices.ContainsFunc(p.spec.Containers, func(c corev1.Container) bool { return c.Name != workerName })
		},
	},
	{"spec.initContainers[" + filesName + "]", "use another name", func(p parts) bool {
		return slices.ContainsFunc(p.spec.InitContainers, func(c corev1.Container) bool { return c.Name == filesName })
	}},
	{"spec.volumes", "names other than " + strings.Join(ourVolumes, ", "), func(p parts) bool {
		return slices.ContainsFunc(p.spec.Volumes,
			func(v corev1.Volume) bool { return slices.Contains(ourVolumes, v.Name) })
	}},
	{ownPath + "image", "set by containers.image", func(p parts) bool { return p.own.Image != "" }},
	{ownPath + "command", "always the worker", func(p parts) bool { return len(p.own.Command) > 0 }},
	{ownPath + "args", "none", func(p parts) bool { return len(p.own.Args) > 0 }},
	{ownPath + "workingDir", "set by containers.workdir", func(p parts) bool { return p.own.WorkingDir != "" }},
	{
		ownPath + "stdin, stdinOnce, tty", "false",
		func(p parts) bool { return p.own.Stdin || p.own.StdinOnce || p.own.TTY },
	},
	{
		ownPath + "lifecycle", "unset, because the worker is the first and the last process",
		func(p parts) bool { return p.own.Lifecycle != nil },
	},
	{
		ownPath + "livenessProbe, startupProbe", "unset, because the director supervises the worker",
		func(p parts) bool { return p.own.LivenessProbe != nil || p.own.StartupProbe != nil },
	},
	{
		ownPath + "securityContext.privileged", "false",
		func(p parts) bool { return isSet(p.security.Privileged, false) },
	},
	{
		ownPath + "securityContext.allowPrivilegeEscalation", "false",
		func(p parts) bool { return isSet(p.security.AllowPrivilegeEscalation, false) },
	},
	{ownPath + "securityContext.runAsUser, runAsGroup, runAsNonRoot", "set by containers.user", func(p parts) bool {
		return p.security.RunAsUser != nil || p.security.RunAsGroup != nil || isSet(p.security.RunAsNonRoot, true)
	}},
	{
		ownPath + "securityContext.capabilities", "all are dropped",
		func(p parts) bool { return p.security.Capabilities != nil },
	},
	{
		ownPath + "securityContext.readOnlyRootFilesystem", "set by containers.read_only",
		func(p parts) bool { return p.security.ReadOnlyRootFilesystem != nil },
	},
	{
		ownPath + "resources.limits.memory", "set by containers.memory",
		func(p parts) bool { return has(p.own.Resources.Limits, corev1.ResourceMemory) },
	},
	{
		ownPath + "resources.limits.cpu", "set by containers.cpus",
		func(p parts) bool { return has(p.own.Resources.Limits, corev1.ResourceCPU) },
	},
}

// conflicts lists the broken rules.
func conflicts(t corev1.PodTemplateSpec) (wrong []string) {
	p := partsIn(t)
	for _, r := range rules {
		if r.broken(p) {
			wrong = append(wrong, r.path+" ("+r.want+")")
		}
	}
	return wrong
}

func has(l corev1.ResourceList, name corev1.ResourceName) bool { _, ok := l[name]; return ok }

// workerIn returns the template's settings for the worker's container.
func workerIn(s corev1.PodSpec) (own corev1.Container) {
	for _, c := range s.Containers {
		if c.Name == workerName {
			own = c
		}
	}
	return own
}
