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

// readTemplate reads a pod template of the operator's: metadata and spec, as in any Deployment. What must be as
// we set it and is otherwise there is an error that names each field.
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
			Next: "it has metadata (labels, annotations) and spec, as the template of a Deployment has",
		}
	}
	if wrong := conflicts(t); len(wrong) > 0 {
		return t, &container.Error{
			Kind: container.ErrSpec, Doing: "pod template " + path,
			Cause: fmt.Errorf("it says otherwise what an attempt needs: %s", strings.Join(wrong, "; ")),
			Next:  "take these fields out of it",
		}
	}
	return t, nil
}

// strictly reads YAML of which every field is known, once and in its right place.
func strictly(data []byte, into any) error {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return err
	}
	unknown, err := json.UnmarshalStrict(asJSON, into)
	return errors.Join(append(unknown, err)...)
}

func isSet[T comparable](p *T, other T) bool { return p != nil && *p != other }

// conflicts are the fields that a template must not have, or not so.
func conflicts(t corev1.PodTemplateSpec) (wrong []string) {
	s, own := t.Spec, workerIn(t.Spec)
	pod, inner := s.SecurityContext, own.SecurityContext
	if pod == nil {
		pod = &corev1.PodSecurityContext{}
	}
	if inner == nil {
		inner = &corev1.SecurityContext{}
	}
	own0 := "spec.containers[" + workerName + "]."
	for _, c := range []struct {
		bad  bool
		path string
		want string
	}{
		{s.RestartPolicy != "" && s.RestartPolicy != corev1.RestartPolicyNever, "spec.restartPolicy", "Never"},
		{
			s.ActiveDeadlineSeconds != nil, "spec.activeDeadlineSeconds",
			"it follows from timeouts.worker_watchdog_seconds",
		},
		{
			s.TerminationGracePeriodSeconds != nil, "spec.terminationGracePeriodSeconds",
			"it is timeouts.stop_grace_seconds",
		},
		{
			isSet(s.AutomountServiceAccountToken, false), "spec.automountServiceAccountToken",
			"false: an agent has no business with the API",
		},
		{isSet(s.EnableServiceLinks, false), "spec.enableServiceLinks", "false"},
		{s.HostNetwork, "spec.hostNetwork", "false"},
		{s.HostPID, "spec.hostPID", "false"},
		{s.HostIPC, "spec.hostIPC", "false"},
		{
			isSet(s.ShareProcessNamespace, false), "spec.shareProcessNamespace",
			"false: what a worker has started ends with it",
		},
		{pod.RunAsUser != nil, "spec.securityContext.runAsUser", "it is containers.user"},
		{pod.RunAsGroup != nil, "spec.securityContext.runAsGroup", "it is containers.user"},
		{isSet(pod.RunAsNonRoot, true), "spec.securityContext.runAsNonRoot", "true"},
		{len(s.EphemeralContainers) > 0, "spec.ephemeralContainers", "none"},
		{
			slices.ContainsFunc(s.Containers, func(c corev1.Container) bool { return c.Name != workerName }),
			"spec.containers", "none but " + workerName + ": a pod ends with its last one (an init container with " +
				"restartPolicy Always ends with the worker)",
		},
		{
			slices.ContainsFunc(s.InitContainers, func(c corev1.Container) bool { return c.Name == filesName }),
			"spec.initContainers[" + filesName + "]", "another name",
		},
		{
			slices.ContainsFunc(s.Volumes, func(v corev1.Volume) bool { return slices.Contains(ourVolumes, v.Name) }),
			"spec.volumes", "other names than " + strings.Join(ourVolumes, ", "),
		},
		{own.Image != "", own0 + "image", "it is containers.image"},
		{len(own.Command) > 0, own0 + "command", "it is the worker"},
		{len(own.Args) > 0, own0 + "args", "none"},
		{own.WorkingDir != "", own0 + "workingDir", "it is containers.workdir"},
		{own.Stdin || own.StdinOnce || own.TTY, own0 + "stdin, stdinOnce, tty", "false"},
		{own.Lifecycle != nil, own0 + "lifecycle", "none: the worker is the first and the last of its processes"},
		{
			own.LivenessProbe != nil || own.StartupProbe != nil, own0 + "livenessProbe, startupProbe",
			"none: the director watches over it",
		},
		{isSet(inner.Privileged, false), own0 + "securityContext.privileged", "false"},
		{isSet(inner.AllowPrivilegeEscalation, false), own0 + "securityContext.allowPrivilegeEscalation", "false"},
		{inner.RunAsUser != nil || inner.RunAsGroup != nil || isSet(inner.RunAsNonRoot, true), own0 +
			"securityContext.runAsUser, runAsGroup, runAsNonRoot", "it is containers.user"},
		{inner.Capabilities != nil, own0 + "securityContext.capabilities", "all are dropped"},
		{
			inner.ReadOnlyRootFilesystem != nil, own0 + "securityContext.readOnlyRootFilesystem",
			"it is containers.read_only",
		},
		{has(own.Resources.Limits, corev1.ResourceMemory), own0 + "resources.limits.memory", "it is containers.memory"},
		{has(own.Resources.Limits, corev1.ResourceCPU), own0 + "resources.limits.cpu", "it is containers.cpus"},
	} {
		if c.bad {
			wrong = append(wrong, c.path+" ("+c.want+")")
		}
	}
	return wrong
}

func has(l corev1.ResourceList, name corev1.ResourceName) bool { _, ok := l[name]; return ok }

// workerIn is what a template says of the attempt's container.
func workerIn(s corev1.PodSpec) (own corev1.Container) {
	for _, c := range s.Containers {
		if c.Name == workerName {
			own = c
		}
	}
	return own
}
