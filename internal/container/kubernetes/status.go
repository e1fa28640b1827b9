package kubernetes

import (
	"cmp"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"retake/internal/container"
	"retake/internal/container/bundle"
)

// status returns an attempt's entry in List.
func (a *attempt) status(id string) container.Status {
	s := container.Status{AttemptID: id}
	if a.job != nil {
		s.Task = a.job.Annotations[container.LabelTask]
	} else if a.pod != nil {
		s.Task = a.pod.Annotations[container.LabelTask]
	}
	switch {
	case a.pod == nil && ended(a.job):
		s.State = container.StateExited
	case a.pod == nil:
		s.State, s.Waiting = container.StatePending, cmp.Or(a.words, "its pod is being created")
	case a.podGone:
		s.State = container.StateExited
	default:
		s.State, s.Waiting = stateOf(a.pod)
	}
	return s
}

// ended reports whether a Job has finished and will not create another pod.
func ended(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed || c.Type == batchv1.JobFailureTarget) &&
			c.Status == corev1.ConditionTrue
	})
}

// stateOf returns the state of a pod's worker, which ends about a second before the pod. If the node is lost, stateOf
// returns the last reported state.
func stateOf(p *corev1.Pod) (s container.State, waiting string) {
	w := statusOf(p.Status.ContainerStatuses, workerName).State
	switch {
	case w.Terminated != nil, p.Status.Phase == corev1.PodFailed, p.Status.Phase == corev1.PodSucceeded:
		return container.StateExited, ""
	case w.Running != nil, p.Status.Phase == corev1.PodRunning && w.Waiting == nil, p.Status.Phase == corev1.PodUnknown:
		return container.StateRunning, ""
	}
	return container.StatePending, waitsFor(p)
}

func statusOf(all []corev1.ContainerStatus, name string) (found corev1.ContainerStatus) {
	for _, c := range all {
		if c.Name == name {
			found = c
		}
	}
	return found
}

// waitsFor returns the cluster's explanation of why a pod is not running yet.
func waitsFor(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			return said(c.Reason, c.Message)
		}
	}
	if reason, message := stuck(p); reason != "" {
		return said(reason, message)
	}
	if p.Spec.NodeName == "" {
		return "it is being scheduled"
	}
	return "it is being prepared on node " + p.Spec.NodeName
}

// stuck returns the kubelet's reason and message for a container that cannot start. It returns "" if every waiting
// container is just starting up.
func stuck(p *corev1.Pod) (reason, message string) {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" &&
			w.Reason != "" {
			return w.Reason, w.Message
		}
	}
	return "", ""
}

func said(reason, message string) string {
	if message == "" || reason == "" {
		return reason + message
	}
	return reason + ": " + message
}

// disruptions maps the reasons in a pod's DisruptionTarget condition to causes.
var disruptions = map[string]container.EndCause{
	"PreemptionByScheduler":  container.EndPreempted,
	"DeletionByTaintManager": container.EndNodeLost,
	"DeletionByPodGC":        container.EndNodeLost,
	"EvictionByEvictionAPI":  container.EndEvicted,
	"TerminationByKubelet":   container.EndEvicted,
}

// podReasons maps a failed pod's reason to the cause, if the cluster ended the worker. With any other reason, the
// node refused the pod.
var podReasons = map[string]container.EndCause{
	"Evicted":          container.EndEvicted,
	"Preempting":       container.EndPreempted,
	"DeadlineExceeded": container.EndDeadline,
	"NodeLost":         container.EndNodeLost,
	"NodeShutdown":     container.EndEvicted,
	"Terminated":       container.EndEvicted, // the node is shutting down
	"Shutdown":         container.EndEvicted,
}

// causeOf returns why the cluster ended a pod, with the cluster's message, or "" if the cluster did not end it.
func causeOf(p *corev1.Pod) (container.EndCause, string) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			if cause := disruptions[c.Reason]; cause != "" {
				// Only the pod's own message names the scarce resource.
				if podReasons[p.Status.Reason] == cause && p.Status.Message != "" {
					return cause, said(p.Status.Reason, p.Status.Message)
				}
				return cause, said(c.Reason, c.Message)
			}
		}
	}
	if cause := podReasons[p.Status.Reason]; cause != "" {
		return cause, said(p.Status.Reason, p.Status.Message)
	}
	return "", ""
}

// stopped is the annotation of pods that Stop has asked to end.
const stopped = "retake.stopped"

// neverStarted lists the reasons of terminated containers whose program never ran. endUnknown is the reason if the
// kubelet did not observe the end.
var neverStarted = []string{"StartError", "ContainerCannotRun"}

const endUnknown = "ContainerStatusUnknown"

// startCode is the cluster's exit code for a program that never ran.
const startCode = 128

// exit returns how an attempt ended, without its output.
func (a *attempt) exit() container.Exit {
	if a.pod == nil {
		return jobExit(a.job)
	}
	p, x := a.pod, container.Exit{}
	term := statusOf(p.Status.ContainerStatuses, workerName).State.Terminated
	asked := a.killed || p.Annotations[stopped] != "" && (p.Status.Reason == "DeadlineExceeded" ||
		p.Status.Reason == "")
	if cause, words := causeOf(p); !asked || cause != container.EndDeadline {
		x.Cause, x.Words = cause, words
	}
	if a.taken && x.Cause == "" && !asked {
		x.Cause, x.Words = container.EndDeleted, "its pod was deleted"
	}
	switch {
	case term != nil && (slices.Contains(neverStarted, term.Reason) ||
		strings.HasPrefix(term.Message, bundle.NotStarted)):
		x.Known, x.ExitCode, x.StartError = true, int(term.ExitCode),
			cmp.Or(strings.TrimPrefix(term.Message, bundle.NotStarted), term.Reason)
	case term != nil && term.Reason != endUnknown:
		x.Known, x.ExitCode, x.OOM = true, int(term.ExitCode), term.Reason == "OOMKilled"
		x.Signal, x.Killed = container.SignalName(x.ExitCode), asked && !x.OOM
	default:
		x.Killed = asked && a.started()
		if why := startError(p); why != "" && x.Cause == "" {
			x.Known, x.ExitCode, x.StartError = true, startCode, why
		} else if x.Words == "" {
			x.Words = waitsForEnd(p)
		}
	}
	return x
}

// started reports whether the last known state of the worker is running.
func (a *attempt) started() bool {
	s, _ := stateOf(a.pod)
	return s == container.StateRunning
}

// waitsForEnd returns why a pod failed, or why it waited.
func waitsForEnd(p *corev1.Pod) string {
	if p.Status.Reason != "" || p.Status.Message != "" {
		return said(p.Status.Reason, p.Status.Message)
	}
	if s, waiting := stateOf(p); s == container.StatePending {
		return waiting
	}
	return ""
}

// startError returns why a pod could not start: unpacking failed, an image is unavailable, or the node refused the pod.
// It is empty if the node did not try to start the pod.
func startError(p *corev1.Pod) string {
	if t := statusOf(p.Status.InitContainerStatuses, filesName).State.Terminated; t != nil && t.ExitCode != 0 {
		return "cannot unpack its files: " + cmp.Or(strings.TrimPrefix(t.Message, bundle.NotStarted), t.Reason)
	}
	if reason, message := stuck(p); reason != "" {
		return said(reason, message)
	}
	if p.Status.Phase == corev1.PodFailed && p.Status.Reason != "" && podReasons[p.Status.Reason] == "" {
		return said(p.Status.Reason, p.Status.Message)
	}
	return ""
}

// jobExit returns how an attempt without a pod ended, according to its Job. The Job shows only whether the cluster
// ended the pod, so Known is false.
func jobExit(j *batchv1.Job) (x container.Exit) {
	if j == nil {
		return x
	}
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			x.Words = said(c.Reason, c.Message)
			if c.Reason == batchv1.JobReasonPodFailurePolicy {
				x.Cause = container.EndEvicted
			}
		}
	}
	return x
}
