package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"retake/internal/container"
	"retake/internal/sys/crashpoint"
)

// Stop ends the attempt's pod, determines how it ended, removes its Job with all of the Job's objects, and returns when
// the API has removed them. A pod that ran is gone only after its kubelet has confirmed the end. If grace is at least
// Options.Grace, a running pod gets SIGTERM, and SIGKILL after Options.Grace. Otherwise Stop deletes the pod at once.
// The pod then gets SIGTERM, and SIGKILL after grace or two seconds, whichever is longer. Exit.Known is false for an
// absent attempt.
//
// If the API answers but the pod remains, usually because its node does not answer, the error is ErrUnconfirmed
// (transient), and Exit has the known details of the end. Other errors are ErrCluster (transient), and ErrSpec if a Job
// with that name belongs to another fleet. The next call continues where this one stopped.
func (k *Kubernetes) Stop(ctx context.Context, attemptID string, grace time.Duration,
	record container.Recorder,
) (container.Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, max(grace, 0)+k.limits.kubelet+2*k.limits.confirm+k.limits.streams+
		2*k.limits.operation)
	defer cancel()
	a, release, err := k.view.acquire(ctx, attemptID)
	if err != nil {
		return container.Exit{}, err
	}
	k.view.change(func() { a.stopping = true })
	s := stopping{a, attemptID, grace, k.objects, k.view, k.logs, k.limits, k.log}
	exit, err := s.stop(ctx, record)
	release(err == nil)
	return exit, err
}

// stopping is one run of Stop.
type stopping struct {
	*attempt
	id      string
	grace   time.Duration
	objects *objects
	view    *view
	logs    *logs
	limits  limits
	log     *zap.Logger
}

func (s *stopping) stop(ctx context.Context, record container.Recorder) (container.Exit, error) {
	found, err := s.read(ctx)
	if err != nil {
		return container.Exit{}, err
	}
	if !found { // never created, or removed externally
		return container.Exit{Stdout: s.logs.seen(s.attempt)}, nil
	}
	before, mayRun := s.soFar()
	if mayRun {
		if err := s.end(ctx); err != nil {
			return s.lostExit(err), err
		}
	}
	exit, _ := s.soFar()
	// Once ended, a pod that never ran no longer shows why it waited.
	if mayRun && !exit.Known && before.Words+before.StartError != "" {
		exit = before
	}
	if exit.Stdout, err = s.logs.last(ctx, s.attempt, s.id); err == nil {
		err = record.Keep(exit)
	}
	if err != nil {
		return container.Exit{}, err
	}
	if err := s.remove(ctx); err != nil {
		return s.lostExit(err), err
	}
	return exit, nil
}

// lostExit returns the known details of an unconfirmed end.
func (s *stopping) lostExit(err error) container.Exit {
	if !errors.Is(err, container.ErrUnconfirmed) {
		return container.Exit{}
	}
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	x := container.Exit{Cause: container.EndNodeLost, Stdout: s.tail.bytes()}
	if s.pod != nil {
		_, x.Words = causeOf(s.pod)
	}
	if e, ok := errors.AsType[*container.Error](err); ok && x.Words == "" {
		x.Words = e.Cause.Error()
	}
	return x
}

// read reads the Job and the pod from the API instead of the view.
func (s *stopping) read(ctx context.Context) (found bool, err error) {
	j, err := s.objects.lookup(ctx, s.id)
	if err != nil {
		return false, err
	}
	p, err := s.objects.pod(ctx, s.id)
	if err != nil {
		return false, err
	}
	s.view.change(func() {
		if s.job = j; p != nil {
			s.podGone = s.podGone && s.pod.UID != p.UID // the API still has it
			s.view.saw(p, false)
		} else {
			s.podGone = s.pod != nil
		}
		found = s.known()
	})
	return found, nil
}

// soFar returns how an attempt ended or why it waits, and whether its processes may run. A pod on a node may run up to
// a second before the API reports it.
func (s *stopping) soFar() (x container.Exit, mayRun bool) {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	state := s.status("").State
	return s.exit(), state == container.StateRunning || state == container.StatePending && s.pod != nil &&
		s.pod.Spec.NodeName != ""
}

// await waits up to limit until the view satisfies a condition. It also asks the API periodically, because
// the watch may break.
func (s *stopping) await(ctx context.Context, limit time.Duration, condition func() bool) (bool, error) {
	changes, stop := s.view.subscribe()
	defer stop()
	deadline, poll := time.NewTimer(limit), time.NewTicker(s.limits.poll)
	defer deadline.Stop()
	defer poll.Stop()
	for {
		s.view.mu.Lock()
		is := condition()
		s.view.mu.Unlock()
		if is {
			return true, nil
		}
		select {
		case <-changes:
		case <-poll.C:
			if _, err := s.read(ctx); err != nil {
				return false, err
			}
		case <-deadline.C:
			return false, nil
		case <-ctx.Done():
			return false, failure("stop "+s.id, ctx.Err())
		}
	}
}

// over reports whether the worker is not running. The caller holds the view's mutex.
func (s *stopping) over() bool {
	state := s.status("").State
	return state != container.StateRunning && state != container.StatePending
}

// end ends a pod that is on a node, and returns when the API reports that its worker is not running.
func (s *stopping) end(ctx context.Context) error {
	s.view.mu.Lock()
	leaving := s.pod.DeletionTimestamp != nil
	s.view.mu.Unlock()
	if s.grace >= s.objects.grace && !leaving {
		if err := s.ask(ctx); err != nil {
			return err
		}
		if ended, err := s.await(ctx, s.grace+s.limits.kubelet, s.over); err != nil || ended {
			return err
		}
	}
	return s.kill(ctx)
}

// ask makes the kubelet end a pod as if its deadline had passed: SIGTERM, Options.Grace, SIGKILL. Unlike a deletion,
// this keeps the pod, its exit code and its log until Stop has read them, even if the director is killed in between. An
// annotation records our request.
func (s *stopping) ask(ctx context.Context) error {
	s.view.mu.Lock()
	pod := s.pod
	s.view.mu.Unlock()
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid":         pod.UID,
			"annotations": map[string]string{stopped: time.Now().UTC().Format(time.RFC3339)},
		},
		"spec": map[string]any{"activeDeadlineSeconds": 1},
	})
	if err != nil {
		return refused("stop "+s.id, "%w", err)
	}
	crashpoint.Reached("kubernetes/stop/before")
	now, err := s.objects.patchPod(ctx, pod.Name, patch)
	crashpoint.Reached("kubernetes/stop/after")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		_, err := s.read(ctx)
		return err
	case err != nil:
		return failure("stop "+s.id, err)
	}
	s.view.change(func() { s.view.saw(now, false) })
	return nil
}

// kill deletes a pod that has not ended after ask, or that must end sooner than Options.Grace allows. The deletion
// removes the log, so kill starts reading it first.
func (s *stopping) kill(ctx context.Context) error {
	s.view.mu.Lock()
	pod, over := s.pod, s.over()
	s.view.mu.Unlock()
	if over {
		return nil
	}
	log := s.logs.readOn(ctx, pod)
	defer func() { s.logs.keep(s.attempt, log) }()
	s.view.change(func() { s.killed = true })
	seconds := max(1, int64(math.Ceil(s.grace.Seconds())))
	if err := s.objects.deletePod(ctx, pod.Name, pod.UID, seconds); err != nil && !apierrors.IsNotFound(err) &&
		!apierrors.IsConflict(err) {
		return failure("delete the pod of "+s.id, err)
	}
	limit := max(time.Duration(seconds)*time.Second, s.objects.grace) + s.limits.confirm
	ended, err := s.await(ctx, limit, func() bool {
		return s.podGone || s.over() && s.pod.DeletionTimestamp != nil && s.pod.Status.Phase != corev1.PodRunning
	})
	if err == nil && !ended {
		err = unconfirmed(s.id, s.notGone(limit))
	}
	return err
}

// notGone describes a pod that has not ended.
func (s *stopping) notGone(limit time.Duration) string {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	p := s.pod
	text := fmt.Sprintf("pod %s should have ended, but node %s has not confirmed it within %v", p.Name, p.Spec.NodeName,
		limit)
	if _, words := causeOf(p); words != "" {
		text += " (" + words + ")"
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue && c.Reason != "" {
			text += "; its Ready condition is " + said(c.Reason, c.Message)
		}
	}
	return text
}

// remove deletes the objects of an attempt that is not running, and returns when the API has removed them.
func (s *stopping) remove(ctx context.Context) error {
	s.view.mu.Lock()
	j, p, never := s.job, s.pod, s.pod == nil
	if s.podGone {
		p = nil
	}
	s.view.mu.Unlock()
	crashpoint.Reached("kubernetes/remove/before")
	if j != nil {
		if err := s.objects.deleteJob(ctx, j.Name, j.UID); err != nil && !apierrors.IsNotFound(err) {
			return failure("delete job "+j.Name, err)
		}
	} else if p != nil { // only its Job was deleted
		if err := s.objects.deletePod(ctx, p.Name, p.UID, int64(s.objects.grace.Seconds())); err != nil &&
			!apierrors.IsNotFound(err) {
			return failure("delete pod "+p.Name, err)
		}
	}
	crashpoint.Reached("kubernetes/remove/after")
	limit := s.objects.grace + s.limits.confirm
	for end := time.Now().Add(limit); ; {
		// The watch reports the removal first, but only the API proves it.
		if _, err := s.await(ctx, min(s.limits.poll, time.Until(end)),
			func() bool { return s.pod == nil || s.podGone }); err != nil {
			return err
		}
		found, err := s.read(ctx)
		switch {
		case err != nil:
			return err
		case !found && !never:
			s.view.forget(j, p)
			return nil
		case !found:
			// The controller may be creating a pod right now. The cluster soon removes that pod, because its
			// Secret and owner are gone, so check again.
			never = false
		case time.Now().After(end):
			return unconfirmed(s.id, s.notGoneAtAll(limit))
		}
		if never || !found {
			select {
			case <-time.After(s.limits.poll / 4):
			case <-ctx.Done():
				return failure("stop "+s.id, ctx.Err())
			}
		}
	}
}

func (s *stopping) notGoneAtAll(limit time.Duration) string {
	s.view.mu.Lock()
	gone := s.pod == nil || s.podGone
	s.view.mu.Unlock()
	if gone {
		return fmt.Sprintf("its job was deleted, but still exists in the API after %v", limit)
	}
	return s.notGone(limit)
}
