package kubernetes

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"retake/internal/container"
	"retake/internal/container/bundle"
	"retake/internal/sys/crashpoint"
)

// Ensure creates the attempt's Job and its bundle unless they exist. It does not wait for the pod; List reports why a
// pod is waiting. An error can leave a Job behind, which Stop removes and another Ensure completes. Errors: ErrSpec,
// ErrNoRoom, ErrCluster.
func (k *Kubernetes) Ensure(ctx context.Context, s container.Spec) error {
	if err := check(s); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, k.limits.operation)
	defer cancel()
	a, release, err := k.view.acquire(ctx, s.AttemptID)
	if err != nil {
		return err
	}
	err = k.ensure(ctx, a, s)
	k.view.mu.Lock()
	nothing := !a.known()
	k.view.mu.Unlock()
	release(nothing)
	return err
}

func (k *Kubernetes) ensure(ctx context.Context, a *attempt, s container.Spec) error {
	j, err := k.objects.lookup(ctx, s.AttemptID)
	if err != nil {
		return err
	}
	parts, err := pack(s)
	if err != nil {
		return refused("attempt "+s.AttemptID, "%w", err)
	}
	if j == nil {
		if j, err = k.objects.create(ctx, s, len(parts)); err != nil {
			return err
		}
	}
	crashpoint.Reached("kubernetes/job/after")
	begun := false
	k.view.change(func() {
		a.job = j
		begun = a.pod != nil && (a.podGone || unpacked(a.pod)) || ended(j)
	})
	if begun {
		return nil
	}
	for i, data := range parts {
		if i == partsOf(j) { // an interrupted start created the Job with fewer parts, which remain valid
			break
		}
		// A Secret that already exists comes from an interrupted start, and its content is valid.
		err := k.objects.createSecret(ctx, k.objects.secretOf(s, j, i, data))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return failure("create secret for "+s.AttemptID, err)
		}
	}
	return nil
}

// pack returns the parts of a spec's bundle.
func pack(s container.Spec) ([][]byte, error) {
	b := bundle.Bundle{Env: variables(s), Input: s.Stdin}
	for _, f := range s.Files {
		b.Files = append(b.Files, bundle.File(f))
	}
	return bundle.Pack(b)
}

// partsOf returns the number of parts of a Job's bundle.
func partsOf(j *batchv1.Job) int {
	for _, v := range j.Spec.Template.Spec.Volumes {
		if v.Name == inVolume && v.Projected != nil {
			return len(v.Projected.Sources)
		}
	}
	return 0
}

// unpacked reports whether a pod has unpacked its bundle.
func unpacked(p *corev1.Pod) bool {
	t := statusOf(p.Status.InitContainerStatuses, filesName).State
	return t.Terminated != nil || p.Status.Phase != corev1.PodPending && p.Status.Phase != ""
}

// objects finds and creates the API objects of attempts.
type objects struct {
	cluster
	manifests
}

func newObjects(api cluster, o Options) (*objects, error) {
	template, err := readTemplate(o.PodTemplate)
	if err != nil {
		return nil, err
	}
	return &objects{api, manifests{o.Fleet, o.Owner, o.WorkerImage, o.Grace, template}}, nil
}

// create creates the Job. If the Job exists, an earlier request created it and the answer was lost.
func (o *objects) create(ctx context.Context, s container.Spec, parts int) (*batchv1.Job, error) {
	crashpoint.Reached("kubernetes/job/before")
	j, err := o.createJob(ctx, o.jobOf(s, parts))
	if apierrors.IsAlreadyExists(err) {
		if j, err := o.lookup(ctx, s.AttemptID); err != nil || j != nil {
			return j, err
		}
	}
	if err != nil {
		return nil, failure("create job "+jobName(s.AttemptID), err)
	}
	return j, nil
}

// lookup returns the attempt's Job, or nil. Error: ErrSpec if the Job belongs to another fleet, owner or attempt.
func (o *objects) lookup(ctx context.Context, attemptID string) (*batchv1.Job, error) {
	j, err := o.job(ctx, jobName(attemptID))
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, failure("find job "+jobName(attemptID), err)
	}
	return j, o.isOurs(j.ObjectMeta, attemptID, "job")
}

func (o *objects) isOurs(m metav1.ObjectMeta, attemptID, kind string) error {
	if m.Labels[container.LabelFleet] == labelValue(o.fleet) &&
		m.Labels[container.LabelOwner] == labelValue(o.owner) && m.Annotations[container.LabelAttempt] == attemptID {
		return nil
	}
	return &container.Error{
		Kind: container.ErrSpec, Doing: kind + " " + m.Name,
		Cause: refused("", "a job with that name exists outside fleet %s", o.fleet).Cause,
		Next:  "remove it, or give each fleet a separate namespace",
	}
}

// pod returns the attempt's pod, or nil. An attempt has at most one.
func (o *objects) pod(ctx context.Context, attemptID string) (*corev1.Pod, error) {
	found, _, err := o.pods(ctx, ofAttempt(attemptID))
	if err != nil {
		return nil, failure("find pod for "+attemptID, err)
	}
	for i := range found {
		if found[i].Annotations[container.LabelAttempt] == attemptID {
			return &found[i], o.isOurs(found[i].ObjectMeta, attemptID, "pod")
		}
	}
	return nil, nil
}

// asPod returns the pod that the Job's controller would create, for use in a dry run.
func asPod(j *batchv1.Job) *corev1.Pod {
	t := j.Spec.Template.DeepCopy()
	t.GenerateName = j.Name + "-"
	return &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
}
