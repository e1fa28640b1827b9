package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"retake/internal/container"
)

// relist lists everything and forgets removed objects. It keeps objects that appear while it is listing.
func (v *view) relist(ctx context.Context) (version string, err error) {
	v.mu.Lock()
	before, pod := map[string]*attempt{}, map[string]*corev1.Pod{}
	for id, a := range v.attempts {
		if a.known() {
			before[id], pod[id] = a, a.pod
		}
	}
	clear(v.removed)
	v.mu.Unlock()
	jobs, err := v.objects.jobs(ctx, v.objects.ours())
	if err != nil {
		return "", failure("list jobs", err)
	}
	pods, version, err := v.objects.pods(ctx, v.objects.ours())
	if err != nil {
		return "", failure("list pods", err)
	}
	v.change(func() {
		there := map[string]bool{}
		for i := range pods {
			v.saw(&pods[i], false)
			there[string(pods[i].UID)] = true
		}
		found := map[string]bool{}
		for i := range jobs {
			if id := jobs[i].Annotations[container.LabelAttempt]; id != "" && !v.removed[jobs[i].UID] {
				v.attempt(id).job = &jobs[i]
				found[id] = true
			}
		}
		for id, a := range before {
			// The pod may have been replaced while we were listing. Keep the new one.
			if was := pod[id]; was != nil && a.pod != nil && a.pod.UID == was.UID && !there[string(was.UID)] {
				a.podGone = true
			}
			if !found[id] {
				a.job = nil
			}
			v.drop(id, a)
		}
	})
	return version, nil
}

// follow keeps the view current until Close. It watches from the given version, and relists periodically and when the
// API has discarded that version.
func (v *view) follow(from string) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval, wait.Multiplier = v.limits.backoff, maxBackoff, 2
	listed := time.Now()
	for v.ctx.Err() == nil {
		connected, err := v.watchOnce(&from, listed.Add(v.limits.relist))
		if connected {
			wait.Reset()
		}
		if errors.Is(err, errListAgain) {
			if from, err = v.relist(v.ctx); err == nil {
				listed = time.Now()
				continue
			}
			from = ""
		}
		if err == nil {
			continue
		}
		v.lost(err)
		select {
		case <-time.After(wait.NextBackOff()):
		case <-v.ctx.Done():
		}
	}
}

func (v *view) lost(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.broken.IsZero() && v.ctx.Err() == nil {
		v.broken = time.Now()
		v.log.Warn("pod watch failed; restarting it", zap.Error(err))
	}
	v.why = err
}

// errListAgain ends a watch that cannot continue or has lasted long enough.
var errListAgain = errors.New("kubernetes: list again")

// watchOnce watches until an error occurs or the API ends the watch. The API does so routinely, so watchOnce then
// returns nil.
func (v *view) watchOnce(from *string, until time.Time) (connected bool, err error) {
	if *from == "" || !time.Now().Before(until) {
		return false, errListAgain
	}
	ctx, cancel := context.WithDeadline(v.ctx, until)
	defer cancel()
	w, err := v.objects.watchPods(ctx, v.objects.ours(), *from)
	if err != nil {
		return false, watchError(err)
	}
	defer w.Stop()
	v.change(func() { v.broken, v.why = time.Time{}, nil })
	for e := range w.ResultChan() {
		switch e.Type {
		case watch.Error:
			return true, watchError(apierrors.FromObject(e.Object))
		case watch.Bookmark, watch.Added, watch.Modified, watch.Deleted:
			pod, ok := e.Object.(*corev1.Pod)
			if !ok {
				return true, fmt.Errorf("pod watch delivered a %T", e.Object)
			}
			*from = pod.ResourceVersion
			if e.Type != watch.Bookmark {
				v.observe(pod, e.Type == watch.Deleted)
			}
		}
	}
	if ctx.Err() != nil && v.ctx.Err() == nil {
		return true, errListAgain
	}
	return true, v.ctx.Err()
}

func watchError(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return errListAgain
	}
	return err
}

// observe records an event. Deleting a Job also deletes its pod, but only the pod's deletion causes an event, so
// observe asks the API for a deleted pod's Job.
func (v *view) observe(pod *corev1.Pod, gone bool) {
	v.change(func() { v.saw(pod, gone) })
	id := pod.Annotations[container.LabelAttempt]
	v.mu.Lock()
	a := v.attempts[id]
	ask := gone && a != nil && a.known() && !a.stopping
	v.mu.Unlock()
	if !ask {
		return
	}
	ctx, cancel := context.WithTimeout(v.ctx, v.limits.operation)
	defer cancel()
	job, err := v.objects.job(ctx, jobName(id))
	if err != nil && !apierrors.IsNotFound(err) {
		return // the next list will show whether the Job exists
	}
	v.change(func() {
		a := v.attempts[id]
		if a == nil {
			return
		}
		if a.job = job; err != nil {
			a.job = nil
		}
		v.drop(id, a)
	})
}
