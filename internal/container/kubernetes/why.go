package kubernetes

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// askWhy runs until Close. It finds out why Jobs have no pods, which a Job does not report. It submits a Job's
// pod as a dry run, which the API refuses for the same reason, such as an exhausted quota or a cluster policy.
func (v *view) askWhy() {
	tick := time.NewTicker(v.limits.podless)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-v.ctx.Done():
			return
		}
		for _, a := range v.podless() {
			v.askWhyOf(a.id, a.job)
		}
	}
}

// askedAtOnce is the maximum number of Jobs per round, at two requests each. If the controller lags behind, thousands
// of Jobs can be without pods, and our requests slow it down further.
const askedAtOnce = 10

type podless struct {
	id    string
	job   *batchv1.Job
	asked time.Time
}

// podless returns Jobs that have had no pod for some time and were not checked recently, longest waiting first.
func (v *view) podless() []podless {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []podless
	for id, a := range v.attempts {
		if a.job == nil || a.pod != nil || ended(a.job) {
			continue
		}
		switch {
		case a.asked.IsZero():
			a.asked = time.Now() // give the controller time to create the pod
		case time.Since(a.asked) >= v.limits.podless:
			all = append(all, podless{id, a.job, a.asked})
		}
	}
	slices.SortFunc(all, func(a, b podless) int { return a.asked.Compare(b.asked) })
	all = all[:min(len(all), askedAtOnce)]
	for _, p := range all {
		v.attempts[p.id].asked = time.Now().Add(3 * v.limits.podless) // check again less often
	}
	return all
}

func (v *view) askWhyOf(id string, j *batchv1.Job) {
	ctx, cancel := context.WithTimeout(v.ctx, v.limits.operation)
	defer cancel()
	now, err := v.objects.job(ctx, j.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return
	}
	gone, words := err != nil, ""
	switch {
	case gone:
	case now.Spec.Suspend != nil && *now.Spec.Suspend:
		words = "its Job is suspended, for example by a cluster queue"
	default:
		if err := v.objects.tryPod(ctx, asPod(now)); err != nil {
			words = err.Error()
		}
	}
	if words != "" {
		v.log.Debug("a job has no pod", zap.String("worker", id), zap.String("reason", words))
	}
	v.change(func() {
		a := v.attempts[id]
		if a == nil || a.job == nil || a.job.UID != j.UID {
			return
		}
		if a.job, a.words = now, words; gone {
			a.job = nil
			v.drop(id, a)
		}
	})
}
