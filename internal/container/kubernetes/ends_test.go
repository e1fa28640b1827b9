package kubernetes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"retake/internal/container"
)

// only returns the single pod of the fake.
func (f *fake) only(t testing.TB) *corev1.Pod {
	t.Helper()
	for _, p := range f.allPods {
		return p
	}
	t.Fatal("there is no pod")
	return nil
}

// disrupt returns a change that marks a pod as ended by the cluster, for a reason.
func disrupt(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type:   corev1.DisruptionTarget,
			Status: corev1.ConditionTrue, Reason: reason, Message: message,
		})
	}
}

// removed returns a function that applies a change to the fake's pod and then deletes the pod.
func removed(mark func(*corev1.Pod)) func(testing.TB, *fake) {
	return func(t testing.TB, f *fake) {
		f.update(f.only(t), mark)
		f.deletes(f.only(t), 1)
	}
}

// clusterEnds are the cases of TestEndsThatTheClusterMakes.
var clusterEnds = []struct {
	name string
	do   func(testing.TB, *fake)
	want container.Exit // Words is a part of the message
}{
	{"preempted", removed(disrupt("PreemptionByScheduler",
		"default-scheduler: preempting to accommodate a higher priority pod")), container.Exit{
		Cause: container.EndPreempted, Words: "to accommodate a higher priority pod", Signal: "SIGKILL",
	}},
	{
		"evicted through the API", removed(disrupt("EvictionByEvictionAPI", "Eviction API: evicting")),
		container.Exit{Cause: container.EndEvicted, Words: "Eviction API", Signal: "SIGKILL"},
	},
	{"its node was tainted", removed(disrupt("DeletionByTaintManager",
		"Taint manager: deleting due to NoExecute taint")), container.Exit{
		Cause: container.EndNodeLost, Words: "NoExecute taint", Signal: "SIGKILL",
	}},
	{"deleted", removed(func(*corev1.Pod) {}), container.Exit{
		Cause: container.EndDeleted, Words: "deleted",
		Signal: "SIGKILL",
	}},
	{"evicted by its node", func(t testing.TB, f *fake) {
		p := f.only(t)
		f.update(p, disrupt("TerminationByKubelet", "The node was low on resource: memory."))
		f.update(p, func(p *corev1.Pod) {
			p.Status.Reason, p.Status.Message = "Evicted", "The node was low on resource: memory. Threshold "+
				"quantity: 100Mi, available: 90Mi."
		})
		f.played[p.UID].signal(9)
	}, container.Exit{Cause: container.EndEvicted, Words: "Threshold quantity", Signal: "SIGKILL"}},
	{"its deadline passed", func(t testing.TB, f *fake) {
		f.update(f.only(t), func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = to(int64(1)) })
	}, container.Exit{
		Cause: container.EndDeadline, Words: "longer than the specified deadline",
		Signal: "SIGKILL",
	}},
	{"out of memory", func(t testing.TB, f *fake) {
		q := f.played[f.only(t).UID]
		q.mu.Lock()
		q.reason = "OOMKilled"
		q.mu.Unlock()
		q.signal(9)
	}, container.Exit{OOM: true, Signal: "SIGKILL"}},
	{
		"killed", func(t testing.TB, f *fake) { f.played[f.only(t).UID].signal(9) },
		container.Exit{Signal: "SIGKILL"},
	},
}

// Exit has the cluster's cause and message.
func TestEndsThatTheClusterMakes(t *testing.T) {
	needBoxes(t)
	t.Parallel()
	for _, c := range clusterEnds {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			k := openFake(t, f, options("f"))
			s := running(t, f, k)
			f.do(func() { c.do(t, f) })
			awaitState(t, k, s.AttemptID, container.StateExited)
			exit := stoppedAt(t, f, k, s, 0)
			if !exit.Known || exit.Killed || exit.Cause != c.want.Cause || exit.OOM != c.want.OOM ||
				exit.Signal != c.want.Signal || !strings.Contains(exit.Words, c.want.Words) {
				t.Errorf("got %+v, want %+v", exit, c.want)
			}
			if !strings.HasPrefix(string(exit.Stdout), "ready\n") { // even if the pod and its log are gone
				t.Errorf("stdout = %q", exit.Stdout)
			}
		})
	}
}

// If a pod is removed while the director is down, the director reports the reason in the Job, and an unknown exit code.
func TestPodThatWentUnseen(t *testing.T) {
	needBoxes(t)
	t.Parallel()
	for _, c := range []struct {
		name, reason string
		cause        container.EndCause
	}{
		{"disrupted", batchv1.JobReasonPodFailurePolicy, container.EndEvicted},
		{"another reason", batchv1.JobReasonBackoffLimitExceeded, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			k := openFake(t, f, options("f"))
			s := running(t, f, k)
			k.Close()
			f.do(func() { f.deletes(f.only(t), 1) })
			eventually(t, "the Job has failed", func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				j := f.allJobs[jobName(s.AttemptID)]
				if !ended(j) || len(f.allPods) > 0 {
					return false
				}
				j.Status.Conditions[0].Reason = c.reason
				return true
			})
			heir := openFake(t, f, options("f"))
			awaitState(t, heir, s.AttemptID, container.StateExited)
			if exit := stoppedAt(t, f, heir, s, time.Minute); exit.Known || exit.Cause != c.cause ||
				!strings.Contains(exit.Words, c.reason) {
				t.Errorf("got %+v", exit)
			}
		})
	}
}

// If the node does not answer, Stop fails after a bounded wait. After the node's return, the next call reports the
// complete end.
func TestLostNode(t *testing.T) {
	needBoxes(t)
	t.Parallel()
	for _, grace := range []time.Duration{0, time.Second} {
		t.Run(grace.String(), func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			hasty := quick
			hasty.kubelet, hasty.confirm = 200*time.Millisecond, 200*time.Millisecond
			impatient, err := open(t.Context(), f, options("f"), hasty)
			if err != nil {
				t.Fatal(err)
			}
			defer impatient.Close()
			k := openFake(t, f, options("f"))
			s := running(t, f, k)
			awaitState(t, impatient, s.AttemptID, container.StateRunning)
			f.do(func() {
				f.nodeLost = true
				f.update(f.only(t), func(p *corev1.Pod) {
					p.Status.Conditions = append(p.Status.Conditions,
						corev1.PodCondition{
							Type: corev1.PodReady, Status: corev1.ConditionFalse,
							Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status.",
						})
				})
			})
			exit, err := impatient.Stop(t.Context(), s.AttemptID, grace, func(container.Exit) error {
				t.Error("recorded an unconfirmed end")
				return nil
			})
			if !errors.Is(err, container.ErrUnconfirmed) || !container.Transient(err) || exit.Known ||
				exit.Cause != container.EndNodeLost || !strings.Contains(exit.Words, "NodeStatusUnknown") {
				t.Errorf("got %+v, %v", exit, err)
			}
			awaitState(t, k, s.AttemptID, container.StateRunning) // the end is still unknown
			f.do(func() { f.nodeLost = false })
			if exit := stoppedAt(t, f, k, s, grace); !exit.Known || !exit.Killed || exit.Signal != "SIGKILL" {
				t.Errorf("got %+v", exit)
			}
		})
	}
}

// An attempt stays until its end is recorded. The next director reports the same end, even if the previous one was
// killed during the stop.
func TestNothingIsRemovedBeforeItIsRecorded(t *testing.T) {
	needBoxes(t)
	t.Parallel()
	f := newFake(t)
	k := openFake(t, f, options("f"))
	s := running(t, f, k)
	full := errors.New("the disk is full")
	if _, err := k.Stop(t.Context(), s.AttemptID, time.Second,
		func(container.Exit) error { return full }); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	k.Close()
	heir := openFake(t, f, options("f"))
	if exit := stoppedAt(t, f, heir, s, 0); !exit.Known || !exit.Killed || exit.Signal != "SIGKILL" ||
		exit.Cause != "" || string(exit.Stdout) != "ready\nno\n" {
		t.Errorf("got %+v", exit)
	}
}

// If a Job is removed with its pods, by hand or after its time to live, List omits the attempt and its end is unknown.
func TestJobThatOthersRemove(t *testing.T) {
	needBoxes(t)
	t.Parallel()
	for _, c := range []struct {
		name string
		ttl  time.Duration
		do   func(*fake, *batchv1.Job)
	}{
		{"with its pods", 0, func(f *fake, j *batchv1.Job) { f.removeJob(j, true) }},
		{"by its time to live", 50 * time.Millisecond, func(f *fake, _ *batchv1.Job) {
			for _, q := range f.played {
				q.signal(9)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.ttl = c.ttl
			k := openFake(t, f, options("f"))
			s := running(t, f, k)
			f.do(func() { c.do(f, f.allJobs[jobName(s.AttemptID)]) })
			awaitState(t, k, s.AttemptID, "")
			if exit, err := k.Stop(context.Background(), s.AttemptID, 0, nil); err != nil || exit.Known {
				t.Errorf("got %+v, %v", exit, err)
			}
		})
	}
}

// Stop also ends a pod that has outlived its Job.
func TestOrphanedPod(t *testing.T) {
	needBoxes(t)
	t.Parallel()
	f := newFake(t)
	k := openFake(t, f, options("f"))
	s := running(t, f, k)
	f.do(func() { f.removeJob(f.allJobs[jobName(s.AttemptID)], false) })
	time.Sleep(100 * time.Millisecond)
	awaitState(t, k, s.AttemptID, container.StateRunning)
	if exit := stoppedAt(t, f, k, s, 0); !exit.Known || !exit.Killed {
		t.Errorf("got %+v", exit)
	}
}
