package kubernetes

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"retake/internal/container"
)

// Delays of the kubelet: a tenth of the measured ones, and even less for leastGrace.
const (
	leastGrace  = 300 * time.Millisecond
	statusDelay = 20 * time.Millisecond // from a container's end to the pod's status
	phaseDelay  = 100 * time.Millisecond
	syncDelay   = 20 * time.Millisecond
	pullDelay   = 100 * time.Millisecond
)

// images are the images on the node. Both have the probe as "worker" in their PATH.
var images = []string{"fake.test/probe:1", "fake.test/worker:1"}

// control is the Job controller. It creates one pod after a short delay.
func (f *fake) control(name string, uid types.UID) {
	time.Sleep(time.Duration(10+rand.IntN(30)) * time.Millisecond)
	for {
		f.mu.Lock()
		j := f.allJobs[name]
		if f.over || j == nil || j.UID != uid {
			f.mu.Unlock()
			return
		}
		if f.admits() == nil && (j.Spec.Suspend == nil || !*j.Spec.Suspend) {
			t := j.Spec.Template.DeepCopy()
			p := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending}}
			p.Name, p.UID, p.ResourceVersion = name+"-"+string(newUID())[:5], newUID(), f.next()
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: name, UID: uid}}
			f.allPods[p.Name] = p
			f.event("ADDED", p)
			f.mu.Unlock()
			f.kubelet(p.Name)
			f.finish(name, uid)
			return
		}
		f.mu.Unlock()
		time.Sleep(syncDelay)
	}
}

// finish records the end in the Job's status, and removes the Job after its time to live.
func (f *fake) finish(name string, uid types.UID) {
	time.Sleep(phaseDelay)
	f.do(func() {
		j := f.allJobs[name]
		if j == nil || j.UID != uid {
			return
		}
		j = j.DeepCopy()
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{
			Type:   batchv1.JobFailed,
			Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded",
			Message: "Job has reached the specified backoff limit",
		})
		f.allJobs[name] = j
	})
	if f.ttl > 0 {
		time.Sleep(f.ttl)
		f.do(func() {
			if j := f.allJobs[name]; j != nil && j.UID == uid {
				f.removeJob(j, true)
			}
		})
	}
}

// now returns the API's version of a pod, or nil after its removal or the test's end.
func (f *fake) now(name string) *corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return nil
	}
	return f.allPods[name]
}

// await waits for a condition of a pod. It returns false if the pod is gone.
func (f *fake) await(name string, so func(*corev1.Pod) bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		p := f.allPods[name]
		if p == nil || f.over {
			return false
		}
		if so(p) {
			return true
		}
		f.changed.Wait()
	}
}

func (f *fake) set(name string, change func(*corev1.PodStatus)) {
	f.do(func() {
		if p := f.allPods[name]; p != nil {
			f.update(p, func(p *corev1.Pod) { change(&p.Status) })
		}
	})
}

// kubelet simulates the scheduler and the kubelet. It waits until the node has room, and runs the pod.
func (f *fake) kubelet(name string) {
	placed := f.await(name, func(p *corev1.Pod) bool {
		if f.room > 0 {
			f.room--
			return true
		}
		if len(p.Status.Conditions) == 0 {
			f.update(p, func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
					Reason: "Unschedulable", Message: "0/1 nodes are available: 1 Insufficient cpu.",
				}}
			})
		}
		return false
	})
	if !placed {
		return
	}
	defer f.do(func() { f.room++ })
	f.do(func() {
		if p := f.allPods[name]; p != nil {
			f.update(p, func(p *corev1.Pod) {
				p.Spec.NodeName, p.Status.Conditions, p.Status.StartTime = "node", nil, to(metav1.Now())
				p.Status.InitContainerStatuses, p.Status.ContainerStatuses = waiting(filesName, "PodInitializing", ""),
					waiting(workerName, "PodInitializing", "")
			})
		}
	})
	if p := f.now(name); p != nil {
		f.play(p)
	}
}

func waiting(container, reason, message string) []corev1.ContainerStatus {
	return []corev1.ContainerStatus{{
		Name:  container,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}
}

// leaving reports whether a pod is deleted, so that its remaining containers do not start.
func leaving(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }

// play runs a pod's containers. On a lost node they keep running, but their changes are not reported.
func (f *fake) play(p *corev1.Pod) {
	name := p.Name
	secretsThere := func(p *corev1.Pod) bool {
		return leaving(p) || !slices.ContainsFunc(inSources(p),
			func(s corev1.VolumeProjection) bool { return f.secrets[s.Secret.Name] == nil })
	}
	if !f.await(name, secretsThere) {
		return
	}
	dir := filepath.Join(f.dir, string(p.UID))
	f.mount(p, dir)
	for _, c := range []struct {
		container *corev1.Container
		statuses  func(*corev1.PodStatus) *[]corev1.ContainerStatus
	}{
		{
			&p.Spec.InitContainers[0],
			func(s *corev1.PodStatus) *[]corev1.ContainerStatus { return &s.InitContainerStatuses },
		},
		{&p.Spec.Containers[0], func(s *corev1.PodStatus) *[]corev1.ContainerStatus { return &s.ContainerStatuses }},
	} {
		if !f.pulls(name, c.container, c.statuses) {
			if p := f.now(name); p != nil && leaving(p) {
				f.gone(name)
			}
			return
		}
		if f.playContainer(p, c.container, c.statuses, dir) != 0 && c.container.Name == filesName {
			break
		}
	}
	time.Sleep(phaseDelay)
	f.set(name, func(s *corev1.PodStatus) {
		if s.Phase = corev1.PodSucceeded; slices.ContainsFunc(s.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.State.Terminated == nil || c.State.Terminated.ExitCode != 0
		}) || s.Reason != "" {
			s.Phase = corev1.PodFailed
		}
	})
	if p := f.now(name); p != nil && leaving(p) {
		f.gone(name)
	}
}

// playContainer runs one container of a pod and returns its exit code.
func (f *fake) playContainer(p *corev1.Pod, c *corev1.Container,
	statuses func(*corev1.PodStatus) *[]corev1.ContainerStatus, dir string,
) int32 {
	name := p.Name
	q := f.run(p, c, dir)
	if c.Name == workerName {
		f.do(func() { f.played[p.UID], q.began = q, true })
	}
	f.set(name, func(s *corev1.PodStatus) {
		*statuses(s) = []corev1.ContainerStatus{{
			Name:  c.Name,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}}
		if c.Name == workerName {
			s.Phase = corev1.PodRunning
		}
	})
	term, deadline := f.attend(name, q)
	time.Sleep(statusDelay)
	f.await(name, func(*corev1.Pod) bool { return !f.nodeLost })
	f.set(name, func(s *corev1.PodStatus) {
		*statuses(s) = []corev1.ContainerStatus{{Name: c.Name, State: corev1.ContainerState{Terminated: &term}}}
		if deadline {
			failsForDeadline(s)
		}
	})
	return term.ExitCode
}

// gone removes a deleted pod, as the API does when the kubelet confirms the pod's end.
func (f *fake) gone(name string) {
	f.await(name, func(*corev1.Pod) bool { return !f.nodeLost })
	f.do(func() {
		if p := f.allPods[name]; p != nil {
			f.removePod(p)
		}
	})
}

// pulls returns true if the node has the image. Otherwise it simulates failed pulls until the pod is deleted or its
// deadline passes, and returns false.
func (f *fake) pulls(name string, c *corev1.Container,
	statuses func(*corev1.PodStatus) *[]corev1.ContainerStatus,
) bool {
	if slices.Contains(images, c.Image) {
		p := f.now(name)
		return p != nil && !leaving(p)
	}
	for i := 0; ; i++ {
		time.Sleep(pullDelay)
		f.set(name, func(s *corev1.PodStatus) {
			if i%2 == 0 {
				*statuses(s) = waiting(c.Name, "ErrImagePull", "failed to pull and unpack image \""+c.Image+
					"\": not found")
			} else {
				*statuses(s) = waiting(c.Name, "ImagePullBackOff", "Back-off pulling image \""+c.Image+"\"")
			}
		})
		p := f.now(name)
		if p == nil || leaving(p) {
			return false
		}
		if outlived(p) {
			f.set(name, failsForDeadline)
			return false
		}
	}
}

func outlived(p *corev1.Pod) bool {
	return p.Spec.ActiveDeadlineSeconds != nil &&
		time.Since(p.Status.StartTime.Time) >= time.Duration(*p.Spec.ActiveDeadlineSeconds)*time.Second
}

func failsForDeadline(s *corev1.PodStatus) {
	s.Phase, s.Reason, s.Message = corev1.PodFailed, "DeadlineExceeded", "Pod was active on the node longer than the "+
		"specified deadline"
}

// attend waits until a container ends. If its pod is deleted or its deadline passes, attend sends SIGTERM and, after
// the grace period, SIGKILL.
func (f *fake) attend(name string, q *played) (term corev1.ContainerStateTerminated, deadline bool) {
	var kill time.Time
	told := false
	for {
		select {
		case <-q.ended:
			return q.terminated(), deadline
		case <-time.After(syncDelay):
		}
		p := f.now(name)
		if p == nil {
			continue
		}
		f.mu.Lock()
		lost := f.nodeLost
		f.mu.Unlock()
		if lost {
			continue
		}
		grace := *p.Spec.TerminationGracePeriodSeconds
		switch {
		case leaving(p):
			grace = *p.DeletionGracePeriodSeconds
		case outlived(p):
			deadline = true
		default:
			continue
		}
		if !told {
			told, kill = true, time.Now().Add(max(leastGrace, time.Duration(grace)*time.Second))
			q.signal(syscall.SIGTERM)
		} else if time.Now().After(kill) {
			q.signal(syscall.SIGKILL)
		}
	}
}

func inSources(p *corev1.Pod) []corev1.VolumeProjection {
	for _, v := range p.Spec.Volumes {
		if v.Name == inVolume {
			return v.Projected.Sources
		}
	}
	return nil
}

// volumeDir returns the directory of a pod's volume.
func volumeDir(dir, volume string) string { return filepath.Join(dir, "volumes", volume) }

// mount creates the directories of a pod's volumes and unpacks its Secrets.
func (f *fake) mount(p *corev1.Pod, dir string) {
	for _, v := range p.Spec.Volumes {
		at := volumeDir(dir, v.Name)
		if err := os.MkdirAll(at, 0o755); err != nil {
			f.t.Error(err)
		}
		if err := os.Chmod(at, 0o777); err != nil {
			f.t.Error(err)
		}
	}
	for _, s := range inSources(p) {
		f.mu.Lock()
		var data []byte
		if secret := f.secrets[s.Secret.Name]; secret != nil {
			data = secret.Data[s.Secret.Items[0].Key]
		}
		f.mu.Unlock()
		if err := os.WriteFile(filepath.Join(volumeDir(dir, inVolume), s.Secret.Items[0].Path), data,
			0o444); err != nil {
			f.t.Error(err)
		}
	}
}

// checkoutOf returns the path of an attempt's checkout on this machine, or "".
func (f *fake) checkoutOf(attemptID string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.allPods {
		if p.Annotations[container.LabelAttempt] == attemptID {
			return filepath.Join(volumeDir(filepath.Join(f.dir, string(p.UID)), diskVolume), "checkout")
		}
	}
	return ""
}
