package kubernetes

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"retake/internal/container"
	"retake/internal/container/bundle"
)

// Names in a pod.
const (
	workerName = "worker"       // the attempt's container
	filesName  = "retake-files" // the init container that unpacks the bundle

	inVolume     = "retake-in"     // the Secrets, for the init container only
	memoryVolume = "retake-memory" // the unpacked bundle, /tmp and the like
	diskVolume   = "retake-disk"   // the checkout and the home directory
)

var ourVolumes = []string{inVolume, memoryVolume, diskVolume}

// home is the default HOME with a read-only root file system, since the home directories in the image are unknown here.
const home = "/home/retake"

// keptFor is the time to live of an ended Job if no director collects it.
const keptFor = 7 * 24 * time.Hour

// leastLife is the default deadline of a pod.
const leastLife = 8 * 24 * time.Hour

func to[T any](v T) *T { return &v }

// place is a directory in a volume, and the path at which the attempt's container mounts it.
type place struct{ volume, folder, at string }

// places returns the directories that a worker can write to.
func places(s container.Spec) []place {
	all := []place{{diskVolume, "checkout", s.Workdir}, {memoryVolume, "tmp", "/tmp"}}
	if s.ReadOnly {
		all = append(all, place{memoryVolume, "var-tmp", "/var/tmp"}, place{memoryVolume, "run", "/run"},
			place{diskVolume, "home", homeOf(s)})
	}
	for i, at := range s.Scratch {
		all = append(all, place{memoryVolume, "scratch-" + strconv.Itoa(i), at})
	}
	seen := map[string]bool{}
	kept := all[:0]
	// Keep only the first place for each path, because scratch directories can duplicate other places.
	for _, p := range all {
		there := seen[p.at] || p.folder == "home" && (p.at == "/" || within(p.at, container.Dir) ||
			within(p.at, s.Workdir))
		if !there {
			seen[p.at] = true
			kept = append(kept, p)
		}
	}
	return kept
}

func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func homeOf(s container.Spec) string {
	at := home
	for _, v := range s.Env {
		if is, ok := strings.CutPrefix(v, "HOME="); ok && path.IsAbs(is) {
			at = path.Clean(is)
		}
	}
	return at
}

// variables returns the bundle's environment.
func variables(s container.Spec) []string {
	if !s.ReadOnly || slices.ContainsFunc(s.Env, func(v string) bool { return strings.HasPrefix(v, "HOME=") }) {
		return s.Env
	}
	return append(slices.Clone(s.Env), "HOME="+homeOf(s))
}

// jobOf returns an attempt's Job. parts is the number of its Secrets.
func (m *manifests) jobOf(s container.Spec, parts int) *batchv1.Job {
	label, note := m.labelled(s)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: jobName(s.AttemptID), Labels: label, Annotations: note}}
	j.Spec = batchv1.JobSpec{
		BackoffLimit: to(int32(0)), Parallelism: to(int32(1)), Completions: to(int32(1)),
		// With the default policy, the Job would start a second pod while a lost node may still run the first one.
		PodReplacementPolicy:    to(batchv1.Failed),
		TTLSecondsAfterFinished: to(int32(keptFor.Seconds())),
		// This policy does not cause retries. It makes the Job's conditions show that the cluster ended the pod, even
		// after the pod is gone.
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action: batchv1.PodFailurePolicyActionFailJob,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{
				Type:   corev1.DisruptionTarget,
				Status: corev1.ConditionTrue,
			}},
		}}},
		Template: m.podOf(s, parts),
	}
	return j
}

// podOf returns the template with the attempt's own settings.
func (m *manifests) podOf(s container.Spec, parts int) corev1.PodTemplateSpec {
	t := *m.template.DeepCopy()
	t.Labels, t.Annotations = m.labelled(s)
	pod := &t.Spec
	pod.RestartPolicy, pod.AutomountServiceAccountToken, pod.EnableServiceLinks = corev1.RestartPolicyNever, to(false),
		to(false)
	pod.ActiveDeadlineSeconds = to(int64(cmp.Or(s.Life, leastLife).Seconds()))
	pod.TerminationGracePeriodSeconds = to(int64(m.grace.Seconds()))
	pod.SecurityContext = asUser(pod.SecurityContext, s)
	own := workerOf(workerIn(t.Spec), s)
	pod.Containers, pod.InitContainers = []corev1.Container{own}, append(pod.InitContainers, m.unpacker(s, own))
	inMemory := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
	pod.Volumes = append(pod.Volumes, secretVolume(s, parts),
		corev1.Volume{Name: memoryVolume, VolumeSource: corev1.VolumeSource{EmptyDir: inMemory}},
		corev1.Volume{Name: diskVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	return t
}

// asUser sets the spec's user in a pod's security context.
func asUser(c *corev1.PodSecurityContext, s container.Spec) *corev1.PodSecurityContext {
	if c == nil {
		c = &corev1.PodSecurityContext{}
	}
	uid, gid, _ := s.IDs() // already validated
	c.RunAsUser, c.RunAsGroup, c.RunAsNonRoot = to(int64(uid)), to(int64(gid)), to(true)
	if c.SeccompProfile == nil {
		c.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	return c
}

func confined(readOnly bool) *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: to(false), ReadOnlyRootFilesystem: to(readOnly),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// workerOf completes the template's container for an attempt.
func workerOf(own corev1.Container, s container.Spec) corev1.Container {
	own.Name, own.Image, own.WorkingDir = workerName, s.Image, s.Workdir
	own.Command = literal(append([]string{container.WorkerPath, bundle.EnterCommand, container.Dir}, s.Entrypoint...))
	own.SecurityContext = confined(s.ReadOnly)
	// This policy puts the last 2 KB of the log in the pod's status. They remain available after the pod and its log
	// are removed.
	own.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	own.Resources = resources(own.Resources, s)
	own.VolumeMounts = append(own.VolumeMounts,
		corev1.VolumeMount{Name: memoryVolume, SubPath: bundle.Dir, MountPath: container.Dir},
		// Read-only, so that agents cannot replace the worker.
		corev1.VolumeMount{
			Name: memoryVolume, SubPath: bundle.Program, MountPath: container.WorkerPath,
			ReadOnly: true,
		})
	for _, p := range places(s) {
		own.VolumeMounts = append(own.VolumeMounts, corev1.VolumeMount{
			Name: p.volume, SubPath: p.folder,
			MountPath: p.at,
		})
	}
	return own
}

// unpacker returns the init container that unpacks an attempt's bundle. A pod requests the maximum of its containers'
// resources, so the init container requests the same as the worker.
func (m *manifests) unpacker(s container.Spec, worker corev1.Container) corev1.Container {
	init := corev1.Container{
		Name: filesName, Image: m.workerImage, SecurityContext: confined(true),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Command:                  []string{"worker", bundle.UnpackCommand, "/" + inVolume, "/" + memoryVolume},
		Resources: corev1.ResourceRequirements{Limits: ceiling(s), Requests: corev1.ResourceList{
			corev1.ResourceMemory: worker.Resources.Requests[corev1.ResourceMemory],
			corev1.ResourceCPU:    worker.Resources.Requests[corev1.ResourceCPU],
		}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: inVolume, MountPath: "/" + inVolume, ReadOnly: true},
			{Name: memoryVolume, MountPath: "/" + memoryVolume},
			{Name: diskVolume, MountPath: "/" + diskVolume},
		},
	}
	for _, p := range places(s) {
		init.Command = append(init.Command, path.Join("/"+p.volume, p.folder))
	}
	return init
}

// literal escapes $(NAME), so that the cluster does not expand it.
func literal(argv []string) []string {
	out := make([]string, len(argv))
	for i, a := range argv {
		out[i] = strings.ReplaceAll(a, "$", "$$")
	}
	return out
}

func ceiling(s container.Spec) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceMemory: *resource.NewQuantity(s.Memory, resource.BinarySI),
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(math.Ceil(s.CPUs*1000)), resource.DecimalSI),
	}
}

// resources adds a spec's limits to the template's limits. Requests equal the limits unless the template sets requests.
func resources(theirs corev1.ResourceRequirements, s container.Spec) corev1.ResourceRequirements {
	for name, q := range ceiling(s) {
		if theirs.Limits == nil {
			theirs.Limits = corev1.ResourceList{}
		}
		if theirs.Requests == nil {
			theirs.Requests = corev1.ResourceList{}
		}
		theirs.Limits[name] = q
		if !has(theirs.Requests, name) {
			theirs.Requests[name] = q
		}
	}
	return theirs
}

// secretVolume presents the parts of the bundle as files. They are readable by all users in the init container, the
// only container that mounts them.
func secretVolume(s container.Spec, parts int) corev1.Volume {
	in := &corev1.ProjectedVolumeSource{DefaultMode: to(int32(0o444))}
	for i := range parts {
		in.Sources = append(in.Sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: secretName(s.AttemptID, i)},
			Items:                []corev1.KeyToPath{{Key: secretKey, Path: bundle.PartName(i)}},
		}})
	}
	return corev1.Volume{Name: inVolume, VolumeSource: corev1.VolumeSource{Projected: in}}
}

const secretKey = "part"

func secretName(attemptID string, part int) string {
	return jobName(attemptID) + "-" + strconv.Itoa(part)
}

// secretOf returns the Secret for one part of an attempt's bundle. It is deleted with its Job.
func (m *manifests) secretOf(s container.Spec, j *batchv1.Job, part int, data []byte) *corev1.Secret {
	label, note := m.labelled(s)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: secretName(s.AttemptID, part), Labels: label, Annotations: note,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID}},
		},
		Immutable: to(true), Data: map[string][]byte{secretKey: data},
	}
}
