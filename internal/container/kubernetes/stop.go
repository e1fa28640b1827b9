package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"go.uber.org/zap"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"retake/internal/container"
	"retake/internal/sys/crashpoint"
)

// Stop ends the attempt's pod, collects how it ended, removes its Job with everything, and returns once the API
// has it no more: a pod that ran is gone when its node's kubelet has said so. A running one gets SIGTERM, and
// SIGKILL after grace or, if that is longer, Options.Grace. Without grace, or with less than Options.Grace, it
// is removed at once: it gets SIGTERM all the same, and SIGKILL after two seconds or grace. Absent: Exit{Known:
// false}.
//
// Errors: ErrUnconfirmed (transient), with what is known of the end, if the API answers and the pod does not
// go, mostly since its node does not answer; ErrCluster (transient); ErrSpec if a Job of that name is not of
// this fleet. Whatever was learnt is kept for the next call.
func (k *Kubernetes) Stop(ctx context.Context, attemptID string, grace time.Duration,
	record container.Recorder,
) (container.Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, max(grace, 0)+k.limits.kubelet+2*k.limits.confirm+k.limits.streams+
		2*k.limits.operation)
	defer cancel()
	a, release, err := k.acquire(ctx, attemptID)
	if err != nil {
		return container.Exit{}, err
	}
	k.change(func() { a.stopping = true })
	exit, err := k.stop(ctx, a, attemptID, grace, record)
	release(err == nil)
	return exit, err
}

func (k *Kubernetes) stop(ctx context.Context, a *attempt, attemptID string, grace time.Duration,
	record container.Recorder,
) (container.Exit, error) {
	found, err := k.look(ctx, a, attemptID)
	if err != nil {
		return container.Exit{}, err
	}
	if !found { // removed by somebody else, or never there
		return container.Exit{Stdout: k.printed(a)}, nil
	}
	before, mayRun := k.soFar(a)
	if mayRun {
		if err := k.end(ctx, a, attemptID, grace); err != nil {
			return k.lostExit(a, err), err
		}
	}
	exit, _ := k.soFar(a)
	// it never ran, and its end does not say any more what it has waited for
	if mayRun && !exit.Known && before.Words+before.StartError != "" {
		exit = before
	}
	if exit.Stdout, err = k.lastOutput(ctx, a, attemptID); err == nil {
		err = record.Keep(exit)
	}
	if err != nil {
		return container.Exit{}, err
	}
	if err := k.remove(ctx, a, attemptID); err != nil {
		return k.lostExit(a, err), err
	}
	return exit, nil
}

// lostExit is what is known of an attempt whose end nobody confirms.
func (k *Kubernetes) lostExit(a *attempt, err error) container.Exit {
	if !errors.Is(err, container.ErrUnconfirmed) {
		return container.Exit{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	x := container.Exit{Cause: container.EndNodeLost, Stdout: a.tail.bytes()}
	if a.pod != nil {
		_, x.Words = causeOf(a.pod)
	}
	if e, ok := errors.AsType[*container.Error](err); ok && x.Words == "" {
		x.Words = e.Cause.Error()
	}
	return x
}

// look asks the API for Job and pod, whatever the view has.
func (k *Kubernetes) look(ctx context.Context, a *attempt, attemptID string) (found bool, err error) {
	j, err := k.lookup(ctx, attemptID)
	if err != nil {
		return false, err
	}
	p, err := k.podOfAttempt(ctx, attemptID)
	if err != nil {
		return false, err
	}
	k.change(func() {
		if a.job = j; p != nil {
			a.podGone = a.podGone && a.pod.UID != p.UID // the API itself has it
			k.saw(p, false)
		} else {
			a.podGone = a.pod != nil
		}
		found = a.known()
	})
	return found, nil
}

// soFar is how an attempt has ended, or what it waits for, and whether anything of it may run. On a node that
// may be so before the API says it: its word is up to a second old.
func (k *Kubernetes) soFar(a *attempt) (x container.Exit, mayRun bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := a.status("").State
	return a.exit(), s == container.StateRunning || s == container.StatePending && a.pod != nil &&
		a.pod.Spec.NodeName != ""
}

// await waits until something is so of what the watch tells, at most for limit. Now and then the API is asked,
// since a watch may break.
func (k *Kubernetes) await(ctx context.Context, a *attempt, attemptID string, limit time.Duration,
	so func() bool,
) (bool, error) {
	changes, stop := k.subscribe()
	defer stop()
	deadline, poll := time.NewTimer(limit), time.NewTicker(k.limits.poll)
	defer deadline.Stop()
	defer poll.Stop()
	for {
		k.mu.Lock()
		is := so()
		k.mu.Unlock()
		if is {
			return true, nil
		}
		select {
		case <-changes:
		case <-poll.C:
			if _, err := k.look(ctx, a, attemptID); err != nil {
				return false, err
			}
		case <-deadline.C:
			return false, nil
		case <-ctx.Done():
			return false, failure("stop "+attemptID, ctx.Err())
		}
	}
}

// end makes a pod end that is on a node, and returns once the API says that its worker does not run.
func (k *Kubernetes) end(ctx context.Context, a *attempt, attemptID string, grace time.Duration) error {
	over := func() bool {
		s := a.status("").State
		return s != container.StateRunning && s != container.StatePending
	}
	if grace >= k.o.Grace && !k.leaving(a) {
		if err := k.ask(ctx, a, attemptID); err != nil {
			return err
		}
		if ended, err := k.await(ctx, a, attemptID, grace+k.limits.kubelet, over); err != nil || ended {
			return err
		}
	}
	return k.kill(ctx, a, attemptID, grace, over)
}

// leaving reports whether somebody has deleted the pod already.
func (k *Kubernetes) leaving(a *attempt) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return a.pod.DeletionTimestamp != nil
}

// ask has the kubelet end a pod as one that has reached its own bound: with SIGTERM, Options.Grace and SIGKILL,
// and so that pod, exit code and log are there until somebody has read them. A deletion would take them away,
// and whoever was killed meanwhile would know nothing. That we have asked is written on the pod.
func (k *Kubernetes) ask(ctx context.Context, a *attempt, attemptID string) error {
	k.mu.Lock()
	pod := a.pod
	k.mu.Unlock()
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid":         pod.UID,
			"annotations": map[string]string{stopped: time.Now().UTC().Format(time.RFC3339)},
		},
		"spec": map[string]any{"activeDeadlineSeconds": 1},
	})
	if err != nil {
		return refused("stop "+attemptID, "%w", err)
	}
	crashpoint.Reached("kubernetes/stop/before")
	now, err := k.api.patchPod(ctx, pod.Name, patch)
	crashpoint.Reached("kubernetes/stop/after")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		_, err := k.look(ctx, a, attemptID)
		return err
	case err != nil:
		return failure("stop "+attemptID, err)
	}
	k.change(func() { k.saw(now, false) })
	return nil
}

// kill deletes the pod of an attempt that does not end, or may not take its time. Its log goes with it, so that
// is read from before.
func (k *Kubernetes) kill(ctx context.Context, a *attempt, attemptID string, grace time.Duration,
	over func() bool,
) error {
	k.mu.Lock()
	pod, is := a.pod, over()
	k.mu.Unlock()
	if is {
		return nil
	}
	log := k.readOn(ctx, pod)
	defer func() { k.keepTail(a, log) }()
	k.change(func() { a.killed = true })
	seconds := max(1, int64(math.Ceil(grace.Seconds())))
	if err := k.api.deletePod(ctx, pod.Name, pod.UID, seconds); err != nil && !apierrors.IsNotFound(err) &&
		!apierrors.IsConflict(err) {
		return failure("delete the pod of "+attemptID, err)
	}
	limit := max(time.Duration(seconds)*time.Second, k.o.Grace) + k.limits.confirm
	gone := func() bool {
		return a.podGone || over() && a.pod.DeletionTimestamp != nil && a.pod.Status.Phase != corev1.PodRunning
	}
	ended, err := k.await(ctx, a, attemptID, limit, gone)
	if err == nil && !ended {
		err = unconfirmed(attemptID, k.notGone(a, limit))
	}
	return err
}

// notGone says what is seen of a pod that was told to end.
func (k *Kubernetes) notGone(a *attempt, limit time.Duration) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := a.pod
	text := fmt.Sprintf("pod %s was told to end, and node %s has not confirmed it within %v", p.Name, p.Spec.NodeName,
		limit)
	if _, words := causeOf(p); words != "" {
		text += " (" + words + ")"
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue && c.Reason != "" {
			text += "; its condition Ready is " + said(c.Reason, c.Message)
		}
	}
	return text
}

// remove deletes what is there of an attempt that does not run, and returns when the API has it no more.
func (k *Kubernetes) remove(ctx context.Context, a *attempt, attemptID string) error {
	k.mu.Lock()
	j, p, never := a.job, a.pod, a.pod == nil
	if a.podGone {
		p = nil
	}
	k.mu.Unlock()
	crashpoint.Reached("kubernetes/remove/before")
	if j != nil {
		if err := k.api.deleteJob(ctx, j.Name, j.UID); err != nil && !apierrors.IsNotFound(err) {
			return failure("delete job "+j.Name, err)
		}
	} else if p != nil { // its Job was deleted without it
		if err := k.api.deletePod(ctx, p.Name, p.UID, int64(k.o.Grace.Seconds())); err != nil &&
			!apierrors.IsNotFound(err) {
			return failure("delete pod "+p.Name, err)
		}
	}
	crashpoint.Reached("kubernetes/remove/after")
	limit := k.o.Grace + k.limits.confirm
	for end := time.Now().Add(limit); ; {
		// First what the watch tells; the API has the last word.
		if _, err := k.await(ctx, a, attemptID, min(k.limits.poll, time.Until(end)),
			func() bool { return a.pod == nil || a.podGone }); err != nil {
			return err
		}
		found, err := k.look(ctx, a, attemptID)
		switch {
		case err != nil:
			return err
		case !found && !never:
			k.forget(j, p)
			return nil
		case !found:
			// the controller may have been about to make a pod; it would find neither its Secret nor an owner,
			// and goes by itself
			never = false
		case time.Now().After(end):
			return unconfirmed(attemptID, k.notGoneAtAll(a, limit))
		}
		if never || !found {
			select {
			case <-time.After(k.limits.poll / 4):
			case <-ctx.Done():
				return failure("stop "+attemptID, ctx.Err())
			}
		}
	}
}

func (k *Kubernetes) notGoneAtAll(a *attempt, limit time.Duration) string {
	k.mu.Lock()
	gone := a.pod == nil || a.podGone
	k.mu.Unlock()
	if gone {
		return fmt.Sprintf("its job was deleted, and the API has it still after %v", limit)
	}
	return k.notGone(a, limit)
}

// forget takes note of what is gone: what is told of it later is old.
func (k *Kubernetes) forget(j *batchv1.Job, p *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if j != nil {
		k.removed[j.UID] = true
	}
	if p != nil {
		k.removed[p.UID] = true
	}
}

// keepTail keeps what was read of a log that ends now, and whatever it was.
func (k *Kubernetes) keepTail(a *attempt, t *tail) {
	select {
	case <-t.done:
	case <-time.After(k.limits.streams):
		k.log.Warn("the log of a pod that was deleted did not end", zap.Int("bytes", len(t.bytes())))
	}
	t.close()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(t.bytes()) >= len(a.tail.bytes()) {
		a.tail = t
	}
}
