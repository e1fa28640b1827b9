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

// status is what a list says of an attempt.
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
		s.State, s.Waiting = container.StatePending, cmp.Or(a.words, "its pod is being made")
	case a.podGone:
		s.State = container.StateExited
	default:
		s.State, s.Waiting = stateOf(a.pod)
	}
	return s
}

// ended reports whether a Job makes no pod any more.
func ended(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed || c.Type == batchv1.JobFailureTarget) &&
			c.Status == corev1.ConditionTrue
	})
}

// stateOf is where a pod is, by its worker, whose end shows a second before the pod's own. A node that is lost
// leaves the last that it said.
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

// waitsFor is why a pod does not run yet, in the cluster's own words.
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
		return "it is being placed"
	}
	return "it is being made ready on node " + p.Spec.NodeName
}

// stuck is what keeps a container of a pod from starting, if the kubelet says any more than that it is at it.
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

// disruptions are what a pod's condition DisruptionTarget has for a reason.
var disruptions = map[string]container.EndCause{
	"PreemptionByScheduler":  container.EndPreempted,
	"DeletionByTaintManager": container.EndNodeLost,
	"DeletionByPodGC":        container.EndNodeLost,
	"EvictionByEvictionAPI":  container.EndEvicted,
	"TerminationByKubelet":   container.EndEvicted,
}

// podReasons are what a pod that has failed as a whole has for a reason, where that says what became of its worker.
var podReasons = map[string]container.EndCause{
	"Evicted":          container.EndEvicted,
	"Preempting":       container.EndPreempted,
	"DeadlineExceeded": container.EndDeadline,
	"NodeLost":         container.EndNodeLost,
	"NodeShutdown":     container.EndEvicted,
	"Terminated":       container.EndEvicted, // by a node that shuts down
	"Shutdown":         container.EndEvicted,
}

// causeOf is what the cluster has ended a pod for, empty if it has not, with its words.
func causeOf(p *corev1.Pod) (container.EndCause, string) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			if cause := disruptions[c.Reason]; cause != "" {
				// says more: what there was too little of
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

// stopped is the annotation of a pod that Stop has asked to end.
const stopped = "retake.stopped"

// neverStarted are reasons of a container's end that say that its program did not run; endUnknown is that of an
// end that nobody saw.
var neverStarted = []string{"StartError", "ContainerCannotRun"}

const endUnknown = "ContainerStatusUnknown"

// startCode is the exit code of what never ran, as the cluster has it.
const startCode = 128

// exit is how an attempt that does not run has ended, but for its output.
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

// started reports whether the worker was seen to run.
func (a *attempt) started() bool {
	s, _ := stateOf(a.pod)
	return s == container.StateRunning
}

// waitsForEnd are the words for a pod that never ran: what it waited for, or why it failed.
func waitsForEnd(p *corev1.Pod) string {
	if p.Status.Reason != "" || p.Status.Message != "" {
		return said(p.Status.Reason, p.Status.Message)
	}
	if s, waiting := stateOf(p); s == container.StatePending {
		return waiting
	}
	return ""
}

// startError is why nothing of a pod could be started, if it was tried: what unpacks its files failed, an image
// is not to be had, or the node refused it.
func startError(p *corev1.Pod) string {
	if t := statusOf(p.Status.InitContainerStatuses, filesName).State.Terminated; t != nil && t.ExitCode != 0 {
		return "its files: " + cmp.Or(strings.TrimPrefix(t.Message, bundle.NotStarted), t.Reason)
	}
	if reason, message := stuck(p); reason != "" {
		return said(reason, message)
	}
	if p.Status.Phase == corev1.PodFailed && p.Status.Reason != "" && podReasons[p.Status.Reason] == "" {
		return said(p.Status.Reason, p.Status.Message)
	}
	return ""
}

// jobExit is what a Job knows whose pod is gone. That the cluster has ended it is the one thing that it says
// for certain.
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
