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
	filesName  = "retake-files" // the init container that unpacks

	inVolume     = "retake-in"     // the Secrets; the init container alone sees it
	memoryVolume = "retake-memory" // what is unpacked, /tmp and the like
	diskVolume   = "retake-disk"   // the checkout and the home
)

var ourVolumes = []string{inVolume, memoryVolume, diskVolume}

// home is HOME where the root file system is read-only and nobody says another: what the image has for its
// users is not known here.
const home = "/home/retake"

// keptFor is how long a Job that has ended is kept if no director comes for it.
const keptFor = 7 * 24 * time.Hour

// leastLife is a pod's own bound of its life if nobody names one.
const leastLife = 8 * 24 * time.Hour

func to[T any](v T) *T { return &v }

// place is a folder of a volume that the attempt sees.
type place struct{ volume, folder, at string }

// places are where a worker can write.
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
	for _, p := range all { // the first wins: the checkout may be any of them, and a scratch may be one of ours
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

// variables are the worker's, which come with its bundle.
func variables(s container.Spec) []string {
	if !s.ReadOnly || slices.ContainsFunc(s.Env, func(v string) bool { return strings.HasPrefix(v, "HOME=") }) {
		return s.Env
	}
	return append(slices.Clone(s.Env), "HOME="+homeOf(s))
}

// jobOf is that of an attempt. Its Secrets are parts in number.
func (k *Kubernetes) jobOf(s container.Spec, parts int) *batchv1.Job {
	label, note := k.labelled(s)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: jobName(s.AttemptID), Labels: label, Annotations: note}}
	j.Spec = batchv1.JobSpec{
		BackoffLimit: to(int32(0)), Parallelism: to(int32(1)), Completions: to(int32(1)),
		// with the other one a node that is lost gets a second pod beside the one that goes on there
		PodReplacementPolicy:    to(batchv1.Failed),
		TTLSecondsAfterFinished: to(int32(keptFor.Seconds())),
		// No more tries follow from it, and the Job says afterwards, without its pod, that the cluster has ended it.
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action: batchv1.PodFailurePolicyActionFailJob,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{
				Type:   corev1.DisruptionTarget,
				Status: corev1.ConditionTrue,
			}},
		}}},
		Template: k.podOf(s, parts),
	}
	return j
}

// podOf is the template with what an attempt needs laid over it.
func (k *Kubernetes) podOf(s container.Spec, parts int) corev1.PodTemplateSpec {
	t := *k.template.DeepCopy()
	t.Labels, t.Annotations = k.labelled(s)
	uid, gid, _ := s.IDs() // valid
	pod, own := &t.Spec, workerIn(t.Spec)

	pod.RestartPolicy, pod.AutomountServiceAccountToken, pod.EnableServiceLinks = corev1.RestartPolicyNever, to(false),
		to(false)
	pod.ActiveDeadlineSeconds = to(int64(cmp.Or(s.Life, leastLife).Seconds()))
	pod.TerminationGracePeriodSeconds = to(int64(k.o.Grace.Seconds()))
	if pod.SecurityContext == nil {
		pod.SecurityContext = &corev1.PodSecurityContext{}
	}
	pod.SecurityContext.RunAsUser, pod.SecurityContext.RunAsGroup, pod.SecurityContext.RunAsNonRoot = to(int64(uid)),
		to(int64(gid)), to(true)
	if pod.SecurityContext.SeccompProfile == nil {
		pod.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	confined := func(readOnly bool) *corev1.SecurityContext {
		return &corev1.SecurityContext{
			AllowPrivilegeEscalation: to(false), ReadOnlyRootFilesystem: to(readOnly),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
	}

	own.Name, own.Image, own.WorkingDir = workerName, s.Image, s.Workdir
	own.Command = literal(append([]string{container.WorkerPath, bundle.EnterCommand, container.Dir}, s.Entrypoint...))
	own.SecurityContext = confined(s.ReadOnly)
	// 2 KB that are left when a pod is removed with its log
	own.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	own.Resources = resources(own.Resources, s)
	init := corev1.Container{
		Name: filesName, Image: k.o.WorkerImage, SecurityContext: confined(true),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Command:                  []string{"worker", bundle.UnpackCommand, "/" + inVolume, "/" + memoryVolume},
		// a pod asks for the most of its containers
		Resources: corev1.ResourceRequirements{Limits: ceiling(s), Requests: corev1.ResourceList{
			corev1.ResourceMemory: own.Resources.Requests[corev1.ResourceMemory],
			corev1.ResourceCPU:    own.Resources.Requests[corev1.ResourceCPU],
		}},
		VolumeMounts: []corev1.VolumeMount{
			{Name: inVolume, MountPath: "/" + inVolume, ReadOnly: true},
			{Name: memoryVolume, MountPath: "/" + memoryVolume},
			{Name: diskVolume, MountPath: "/" + diskVolume},
		},
	}
	own.VolumeMounts = append(own.VolumeMounts,
		corev1.VolumeMount{Name: memoryVolume, SubPath: bundle.Dir, MountPath: container.Dir},
		// nobody replaces it
		corev1.VolumeMount{
			Name: memoryVolume, SubPath: bundle.Program, MountPath: container.WorkerPath,
			ReadOnly: true,
		})
	for _, p := range places(s) {
		init.Command = append(init.Command, path.Join("/"+p.volume, p.folder))
		own.VolumeMounts = append(own.VolumeMounts, corev1.VolumeMount{
			Name: p.volume, SubPath: p.folder,
			MountPath: p.at,
		})
	}
	pod.Containers, pod.InitContainers = []corev1.Container{own}, append(pod.InitContainers, init)
	pod.Volumes = append(pod.Volumes, secretVolume(s, parts),
		corev1.Volume{
			Name: memoryVolume,
			VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
			},
		},
		corev1.Volume{Name: diskVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	return t
}

// literal keeps the cluster from putting variables in the place of $(NAME).
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

// resources are the limits of a spec, and as requests the same, unless the template asks for others, beside
// what else it has.
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

// secretVolume shows the parts of the bundle as files. Everybody in the init container may read them, and
// nobody else is there.
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

// secretOf is a part of an attempt's bundle. It goes with its Job.
func (k *Kubernetes) secretOf(s container.Spec, j *batchv1.Job, part int, data []byte) *corev1.Secret {
	label, note := k.labelled(s)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: secretName(s.AttemptID, part), Labels: label, Annotations: note,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID}},
		},
		Immutable: to(true), Data: map[string][]byte{secretKey: data},
	}
}
