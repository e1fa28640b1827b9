package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// fake behaves like a real single-node cluster, but faster. Pods appear after their Jobs, and a worker ends before its
// pod. The pods and Secrets of a deleted Job are removed a little later. A deleted pod is removed when the kubelet
// confirms its end. The containers are processes of this machine.
type fake struct {
	t       testing.TB
	dir     string
	mu      sync.Mutex
	changed *sync.Cond // signals any change of the fake
	version int
	oldest  int // a watch cannot begin at an older version
	history []watch.Event
	allJobs map[string]*batchv1.Job
	allPods map[string]*corev1.Pod
	secrets map[string]*corev1.Secret
	played  map[types.UID]*played
	asked   map[Right]int
	watches int // number of opened watches
	work    sync.WaitGroup
	over    bool

	// Set by tests.
	away      bool           // requests fail
	cut       int            // watches opened before this number are closed
	nodeLost  bool           // the kubelet is frozen
	room      int            // number of pods that can be scheduled
	podQuota  bool           // the controller cannot create pods
	suspend   bool           // a queue suspends new Jobs
	jobQuota  bool           // Jobs are refused
	forbidden map[Right]bool // rights of the director
	refuse    string         // pods are refused for this reason
	late      time.Duration  // delay of the first event of a watch
	lostReply bool           // the next Job is created, but the answer is lost
	ttl       time.Duration  // time to live of ended Jobs; 0 for unlimited
}

var _ cluster = (*fake)(nil)

func newFake(t testing.TB) *fake {
	f := &fake{
		t: t, dir: t.TempDir(), allJobs: map[string]*batchv1.Job{}, allPods: map[string]*corev1.Pod{},
		secrets: map[string]*corev1.Secret{},
		played:  map[types.UID]*played{}, asked: map[Right]int{}, forbidden: map[Right]bool{}, room: 1000, version: 100,
	}
	f.changed = sync.NewCond(&f.mu)
	t.Cleanup(f.end)
	return f
}

func (f *fake) end() {
	f.mu.Lock()
	f.over, f.nodeLost = true, false
	for _, p := range f.played {
		p.signal(9)
	}
	f.changed.Broadcast()
	f.mu.Unlock()
	f.work.Wait()
}

// do applies a change with the lock held, and signals it.
func (f *fake) do(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.changed.Broadcast()
}

func (f *fake) server() string { return "https://fake" }

// ask simulates a request of the director. If the request is allowed, ask returns with the lock held.
func (f *fake) ask(r Right) error {
	time.Sleep(time.Millisecond)
	f.mu.Lock()
	f.asked[r]++
	switch {
	case f.away:
		f.mu.Unlock()
		return errors.New("dial tcp: connection refused")
	case f.forbidden[r]:
		f.mu.Unlock()
		return apierrors.NewForbidden(schema.GroupResource{Group: r.Group, Resource: r.Resource}, "",
			fmt.Errorf("User %q cannot %s resource %q in API group %q in the namespace %q", "director", r.Verb,
				r.Resource, r.Group, "ns"))
	}
	return nil
}

func (f *fake) next() string { f.version++; return strconv.Itoa(f.version) }

func newUID() types.UID { return types.UID(fmt.Sprintf("%016x", rand.Uint64())) }

var (
	jobsResource = schema.GroupResource{Group: "batch", Resource: "jobs"}
	podsResource = schema.GroupResource{Resource: "pods"}
)

func (f *fake) createJob(_ context.Context, j *batchv1.Job) (*batchv1.Job, error) {
	if err := f.ask(Right{"create", "batch", "jobs", ""}); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	switch {
	case f.allJobs[j.Name] != nil:
		return nil, apierrors.NewAlreadyExists(jobsResource, j.Name)
	case f.jobQuota:
		return nil, apierrors.NewForbidden(jobsResource, j.Name,
			errors.New("exceeded quota: q, requested: count/jobs.batch=1, used: count/jobs.batch=1, limited: "+
				"count/jobs.batch=1"))
	}
	made := j.DeepCopy()
	made.UID, made.ResourceVersion, made.CreationTimestamp = newUID(), f.next(), metav1.Now()
	if f.suspend {
		made.Spec.Suspend = to(true)
	}
	f.allJobs[j.Name] = made
	f.work.Go(func() { f.control(made.Name, made.UID) })
	if f.lostReply {
		f.lostReply = false
		return nil, io.ErrUnexpectedEOF
	}
	return made.DeepCopy(), nil
}

func (f *fake) job(_ context.Context, name string) (*batchv1.Job, error) {
	if err := f.ask(Right{"get", "batch", "jobs", ""}); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	if j := f.allJobs[name]; j != nil {
		return j.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(jobsResource, name)
}

// unsuspend releases all Jobs from the queue.
func (f *fake) unsuspend() {
	f.suspend = false
	for name, j := range f.allJobs {
		j = j.DeepCopy()
		j.Spec.Suspend = to(false)
		f.allJobs[name] = j
	}
}

func selects(selector string, of map[string]string) bool {
	s, err := labels.Parse(selector)
	return err == nil && s.Matches(labels.Set(of))
}

func (f *fake) jobs(_ context.Context, selector string) (all []batchv1.Job, err error) {
	if err := f.ask(Right{"list", "batch", "jobs", ""}); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	for _, j := range f.allJobs {
		if selects(selector, j.Labels) {
			all = append(all, *j.DeepCopy())
		}
	}
	return all, nil
}

func (f *fake) deleteJob(_ context.Context, name string, uid types.UID) error {
	if err := f.ask(Right{"delete", "batch", "jobs", ""}); err != nil {
		return err
	}
	defer f.mu.Unlock()
	j := f.allJobs[name]
	switch {
	case j == nil:
		return apierrors.NewNotFound(jobsResource, name)
	case j.UID != uid:
		return apierrors.NewConflict(jobsResource, name, errors.New("uid"))
	}
	f.removeJob(j, true)
	return nil
}

// removeJob removes a Job. If it cascades, the garbage collector removes the Job's objects a little later.
func (f *fake) removeJob(j *batchv1.Job, cascade bool) {
	delete(f.allJobs, j.Name)
	f.changed.Broadcast()
	f.work.Go(func() {
		time.Sleep(time.Duration(20+rand.IntN(30)) * time.Millisecond)
		f.do(func() {
			for name, s := range f.secrets {
				if s.OwnerReferences[0].UID == j.UID {
					delete(f.secrets, name)
				}
			}
			for _, p := range f.allPods {
				if p.OwnerReferences[0].UID != j.UID {
					continue
				}
				if cascade {
					f.deletes(p, *p.Spec.TerminationGracePeriodSeconds)
				}
			}
		})
	})
}

func (f *fake) createSecret(_ context.Context, s *corev1.Secret) error {
	if err := f.ask(Right{"create", "", "secrets", ""}); err != nil {
		return err
	}
	defer f.mu.Unlock()
	if f.secrets[s.Name] != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, s.Name)
	}
	for _, data := range s.Data {
		if len(data) > corev1.MaxSecretSize {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, s.Name, nil)
		}
	}
	f.secrets[s.Name] = s.DeepCopy()
	f.changed.Broadcast()
	return nil
}

func (f *fake) tryPod(context.Context, *corev1.Pod) error {
	if err := f.ask(Right{"create", "", "pods", ""}); err != nil {
		return err
	}
	defer f.mu.Unlock()
	return f.admits()
}

// admits returns the API's answer to a new pod.
func (f *fake) admits() error {
	switch {
	case f.refuse != "":
		return apierrors.NewForbidden(podsResource, "x", errors.New(f.refuse))
	case f.podQuota:
		return apierrors.NewForbidden(podsResource, "x",
			errors.New("exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3"))
	}
	return nil
}

func (f *fake) pods(_ context.Context, selector string) (all []corev1.Pod, at string, err error) {
	if err := f.ask(Right{"list", "", "pods", ""}); err != nil {
		return nil, "", err
	}
	defer f.mu.Unlock()
	for _, p := range f.allPods {
		if selects(selector, p.Labels) {
			all = append(all, *p.DeepCopy())
		}
	}
	return all, strconv.Itoa(f.version), nil
}

func (f *fake) patchPod(_ context.Context, name string, patch []byte) (*corev1.Pod, error) {
	if err := f.ask(Right{"patch", "", "pods", ""}); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	p := f.allPods[name]
	if p == nil {
		return nil, apierrors.NewNotFound(podsResource, name)
	}
	var change struct {
		Metadata metav1.ObjectMeta
		Spec     corev1.PodSpec
	}
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if change.Metadata.UID != p.UID {
		return nil, apierrors.NewConflict(podsResource, name, errors.New("uid"))
	}
	f.update(p, func(p *corev1.Pod) {
		for k, v := range change.Metadata.Annotations {
			p.Annotations[k] = v
		}
		p.Spec.ActiveDeadlineSeconds = change.Spec.ActiveDeadlineSeconds
	})
	return f.allPods[name].DeepCopy(), nil
}

func (f *fake) deletePod(_ context.Context, name string, uid types.UID, graceSeconds int64) error {
	if err := f.ask(Right{"delete", "", "pods", ""}); err != nil {
		return err
	}
	defer f.mu.Unlock()
	if graceSeconds < 1 {
		f.t.Errorf("pod %s was deleted without a confirmation of its kubelet", name)
	}
	p := f.allPods[name]
	switch {
	case p == nil:
		return apierrors.NewNotFound(podsResource, name)
	case p.UID != uid:
		return apierrors.NewConflict(podsResource, name, errors.New("uid"))
	}
	f.deletes(p, graceSeconds)
	return nil
}

// deletes marks a pod as deleted, or removes it at once if no kubelet has to confirm the end.
func (f *fake) deletes(p *corev1.Pod, grace int64) {
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		f.removePod(p)
		return
	}
	f.update(p, func(p *corev1.Pod) {
		if p.DeletionTimestamp == nil {
			p.DeletionTimestamp = to(metav1.Now())
		}
		p.DeletionGracePeriodSeconds = &grace
	})
}

func (f *fake) may(_ context.Context, verb, group, resource, subresource string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return false, errors.New("dial tcp: connection refused")
	}
	return !f.forbidden[Right{verb, group, resource, subresource}], nil
}

// update creates a new version of a pod and its event.
func (f *fake) update(p *corev1.Pod, change func(*corev1.Pod)) {
	p = f.allPods[p.Name].DeepCopy()
	change(p)
	p.ResourceVersion = f.next()
	f.allPods[p.Name] = p
	f.event(watch.Modified, p)
}

func (f *fake) event(kind watch.EventType, p *corev1.Pod) {
	f.history = append(f.history, watch.Event{Type: kind, Object: p.DeepCopy()})
	f.changed.Broadcast()
}

func (f *fake) removePod(p *corev1.Pod) {
	p = f.allPods[p.Name].DeepCopy()
	delete(f.allPods, p.Name)
	p.ResourceVersion = f.next()
	f.event(watch.Deleted, p)
	if q := f.played[p.UID]; q != nil {
		q.logGone = true
	}
}

// log returns the output of a pod's worker. It fails for lost nodes and for workers that have not started.
func (f *fake) log(ctx context.Context, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	if err := f.ask(Right{"get", "", "pods", "log"}); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	p := f.allPods[pod]
	switch {
	case p == nil:
		return nil, apierrors.NewNotFound(podsResource, pod)
	case f.nodeLost:
		return nil, apierrors.NewInternalError(
			errors.New(`Get "https://localhost:10250/containerLogs": dial tcp: connection refused`))
	}
	q := f.played[p.UID]
	if q == nil || !q.began {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("container %q in pod %q is waiting to start: ContainerCreating",
			o.Container, pod))
	}
	if q.logGone {
		return io.NopCloser(strings.NewReader("unable to retrieve container logs for containerd://1234")), nil
	}
	return q.output(ctx, f, o), nil
}
