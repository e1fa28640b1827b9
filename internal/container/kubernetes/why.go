package kubernetes

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// askWhy finds out, until Close, why Jobs have no pod: nothing in a Job says it. The API is shown the pod that
// the controller would make, in a dry run, and refuses that for the same reason: a quota that is used up, a
// rule of the cluster's.
func (k *Kubernetes) askWhy() {
	tick := time.NewTicker(k.limits.podless)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-k.ctx.Done():
			return
		}
		for _, a := range k.podless() {
			k.askWhyOf(a.id, a.job)
		}
	}
}

// askedAtOnce is how many Jobs are asked for in one round, two requests each: a controller that is behind has
// thousands without a pod, and is slower for each that asks.
const askedAtOnce = 10

type podless struct {
	id    string
	job   *batchv1.Job
	asked time.Time
}

// podless are Jobs that have had no pod for some time, and were not asked for lately: those that have waited longest.
func (k *Kubernetes) podless() []podless {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []podless
	for id, a := range k.attempts {
		if a.job == nil || a.pod != nil || ended(a.job) {
			continue
		}
		switch {
		case a.asked.IsZero():
			a.asked = time.Now() // the first time it is given time
		case time.Since(a.asked) >= k.limits.podless:
			all = append(all, podless{id, a.job, a.asked})
		}
	}
	slices.SortFunc(all, func(a, b podless) int { return a.asked.Compare(b.asked) })
	all = all[:min(len(all), askedAtOnce)]
	for _, p := range all {
		k.attempts[p.id].asked = time.Now().Add(3 * k.limits.podless) // and then not too often
	}
	return all
}

func (k *Kubernetes) askWhyOf(id string, j *batchv1.Job) {
	ctx, cancel := context.WithTimeout(k.ctx, k.limits.operation)
	defer cancel()
	now, err := k.api.job(ctx, j.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return
	}
	gone, words := err != nil, ""
	switch {
	case gone:
	case now.Spec.Suspend != nil && *now.Spec.Suspend:
		words = "its Job is suspended: whoever holds it, such as a queue of the cluster's, has not let it begin"
	default:
		if err := k.api.tryPod(ctx, asPod(now)); err != nil {
			words = err.Error()
		}
	}
	if words != "" {
		k.log.Debug("a job has no pod", zap.String("worker", id), zap.String("reason", words))
	}
	k.change(func() {
		a := k.attempts[id]
		if a == nil || a.job == nil || a.job.UID != j.UID {
			return
		}
		if a.job, a.words = now, words; gone {
			a.job = nil
			k.drop(id, a)
		}
	})
}
