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

// acquire waits for the attempt's turn, and returns what is known of it. forget drops that.
func (k *Kubernetes) acquire(ctx context.Context, attemptID string) (a *attempt, release func(forget bool), err error) {
	for {
		k.mu.Lock()
		a = k.attempt(attemptID)
		k.mu.Unlock()
		select {
		case a.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, failure("wait for attempt "+attemptID, ctx.Err())
		}
		k.mu.Lock()
		current := k.attempts[attemptID] == a
		k.mu.Unlock()
		if current {
			break
		}
		<-a.turn // whoever had it has dropped it: begin anew
	}
	return a, func(forget bool) {
		k.change(func() {
			if a.stopping = false; forget {
				delete(k.attempts, attemptID)
			}
		})
		<-a.turn
	}, nil
}

// Ensure makes sure that the attempt's Job is there, and its bundle. It does not wait for the pod: List says
// what that waits for, or that it ended. Errors: ErrSpec, ErrNoRoom, ErrCluster. After an error a Job may
// exist: Stop removes it, a further Ensure completes it.
func (k *Kubernetes) Ensure(ctx context.Context, s container.Spec) error {
	if err := check(s); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, k.limits.operation)
	defer cancel()
	a, release, err := k.acquire(ctx, s.AttemptID)
	if err != nil {
		return err
	}
	err = k.ensure(ctx, a, s)
	k.mu.Lock()
	nothing := !a.known()
	k.mu.Unlock()
	release(nothing)
	return err
}

func (k *Kubernetes) ensure(ctx context.Context, a *attempt, s container.Spec) error {
	j, err := k.lookup(ctx, s.AttemptID)
	if err != nil {
		return err
	}
	parts, err := pack(s)
	if err != nil {
		return refused("attempt "+s.AttemptID, "%w", err)
	}
	if j == nil {
		if j, err = k.create(ctx, s, len(parts)); err != nil {
			return err
		}
	}
	crashpoint.Reached("kubernetes/job/after")
	k.change(func() { a.job = j })
	k.mu.Lock()
	begun := a.pod != nil && (a.podGone || unpacked(a.pod)) || ended(j)
	k.mu.Unlock()
	if begun {
		return nil
	}
	for i, data := range parts {
		if i == partsOf(j) { // of an earlier start, whose bundle was shorter: it is that one's, or none
			break
		}
		// One that is there is of an earlier start that was cut off. Its input is as good as this one.
		if err := k.api.createSecret(ctx, k.secretOf(s, j, i, data)); err != nil && !apierrors.IsAlreadyExists(err) {
			return failure("make the secret of "+s.AttemptID, err)
		}
	}
	return nil
}

// pack makes the bundle of a spec.
func pack(s container.Spec) ([][]byte, error) {
	b := bundle.Bundle{Env: variables(s), Input: s.Stdin}
	for _, f := range s.Files {
		b.Files = append(b.Files, bundle.File(f))
	}
	return bundle.Pack(b)
}

// partsOf is of how many parts the bundle of a Job is.
func partsOf(j *batchv1.Job) int {
	for _, v := range j.Spec.Template.Spec.Volumes {
		if v.Name == inVolume && v.Projected != nil {
			return len(v.Projected.Sources)
		}
	}
	return 0
}

// unpacked reports whether a pod has its bundle.
func unpacked(p *corev1.Pod) bool {
	t := statusOf(p.Status.InitContainerStatuses, filesName).State
	return t.Terminated != nil || p.Status.Phase != corev1.PodPending && p.Status.Phase != ""
}

// create makes the Job. Somebody else may have been first: an earlier request of ours whose answer did not come.
func (k *Kubernetes) create(ctx context.Context, s container.Spec, parts int) (*batchv1.Job, error) {
	crashpoint.Reached("kubernetes/job/before")
	j, err := k.api.createJob(ctx, k.jobOf(s, parts))
	if apierrors.IsAlreadyExists(err) {
		if j, err := k.lookup(ctx, s.AttemptID); err != nil || j != nil {
			return j, err
		}
	}
	if err != nil {
		return nil, failure("make job "+jobName(s.AttemptID), err)
	}
	return j, nil
}

// lookup asks for the attempt's Job; nil: there is none. Error: ErrSpec if it is not of this fleet and owner,
// or of another attempt.
func (k *Kubernetes) lookup(ctx context.Context, attemptID string) (*batchv1.Job, error) {
	j, err := k.api.job(ctx, jobName(attemptID))
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, failure("look for job "+jobName(attemptID), err)
	}
	return j, k.isOurs(j.ObjectMeta, attemptID, "job")
}

func (k *Kubernetes) isOurs(m metav1.ObjectMeta, attemptID, kind string) error {
	if m.Labels[container.LabelFleet] == labelValue(k.o.Fleet) &&
		m.Labels[container.LabelOwner] == labelValue(k.o.Owner) && m.Annotations[container.LabelAttempt] == attemptID {
		return nil
	}
	return &container.Error{
		Kind: container.ErrSpec, Doing: kind + " " + m.Name,
		Cause: refused("", "it exists and is not of fleet %s", k.o.Fleet).Cause,
		Next:  "remove it, or give each fleet a namespace of its own",
	}
}

// podOfAttempt asks for the attempt's pod; nil: there is none. There is never more than one.
func (k *Kubernetes) podOfAttempt(ctx context.Context, attemptID string) (*corev1.Pod, error) {
	found, _, err := k.api.pods(ctx, ofAttempt(attemptID))
	if err != nil {
		return nil, failure("look for the pod of "+attemptID, err)
	}
	for i := range found {
		if found[i].Annotations[container.LabelAttempt] == attemptID {
			return &found[i], k.isOurs(found[i].ObjectMeta, attemptID, "pod")
		}
	}
	return nil, nil
}

// asPod is the pod that a Job would make, for a dry run.
func asPod(j *batchv1.Job) *corev1.Pod {
	t := j.Spec.Template.DeepCopy()
	t.GenerateName = j.Name + "-"
	return &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
}
