package kubernetes

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"retake/internal/container"
)

// view is the state of the fleet, kept current by a watch on the pods.
type view struct {
	objects *objects
	limits  limits
	log     *zap.Logger

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex
	attempts map[string]*attempt // by attempt id
	// removed contains the Jobs and pods that Stop has removed since the last list. The view ignores later events about
	// them.
	removed map[types.UID]bool
	waiting map[chan struct{}]bool
	broken  time.Time // when the watch broke, or zero
	why     error
}

func newView(o *objects, l limits, log *zap.Logger) *view {
	v := &view{
		objects: o, limits: l, log: log, attempts: map[string]*attempt{}, removed: map[types.UID]bool{},
		waiting: map[chan struct{}]bool{},
	}
	v.ctx, v.cancel = context.WithCancel(context.Background())
	return v
}

// attempt is the view's state of an attempt, from the first event about its Job or pod until Stop has finished. The
// view's mutex guards all fields except turn.
type attempt struct {
	turn chan struct{} // full during an operation

	job     *batchv1.Job // nil if unknown
	pod     *corev1.Pod  // as last seen, or nil
	podGone bool         // set once the API has removed pod
	taken   bool         // set if the pod was deleted while it ran
	words   string       // why a Job has no pod
	asked   time.Time    // when we last asked why

	stopping bool  // set while Stop runs and polls the API
	killed   bool  // set if we deleted the pod while it ran
	tail     *tail // newest output that we have read, or nil
}

// known reports whether the cluster has any of the attempt's objects.
func (a *attempt) known() bool { return a.job != nil || a.pod != nil && !a.podGone }

// attempt returns the attempt with the given id, and adds it if it is new. The caller must hold v.mu.
func (v *view) attempt(id string) *attempt {
	a := v.attempts[id]
	if a == nil {
		a = &attempt{turn: make(chan struct{}, 1)}
		v.attempts[id] = a
	}
	return a
}

// acquire waits for a turn to operate on the attempt. release ends the turn and, with forget, drops the attempt.
func (v *view) acquire(ctx context.Context, attemptID string) (a *attempt, release func(forget bool), err error) {
	for {
		v.mu.Lock()
		a = v.attempt(attemptID)
		v.mu.Unlock()
		select {
		case a.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, failure("wait for attempt "+attemptID, ctx.Err())
		}
		v.mu.Lock()
		current := v.attempts[attemptID] == a
		v.mu.Unlock()
		if current {
			break
		}
		<-a.turn // the previous holder has dropped this attempt
	}
	return a, func(forget bool) {
		v.change(func() {
			if a.stopping = false; forget {
				delete(v.attempts, attemptID)
			}
		})
		<-a.turn
	}, nil
}

// list returns the known attempts. Error: ErrCluster if the watch has been broken for some time.
func (v *view) list() ([]container.Status, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.blind(); err != nil {
		return nil, err
	}
	list := []container.Status{}
	for id, a := range v.attempts {
		if a.known() {
			list = append(list, a.status(id))
		}
	}
	container.SortStatuses(list)
	return list, nil
}

// find returns one attempt's entry in list.
func (v *view) find(attemptID string) (s container.Status, found bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.blind(); err != nil {
		return s, false, err
	}
	a := v.attempts[attemptID]
	if a == nil || !a.known() {
		return s, false, nil
	}
	return a.status(attemptID), true, nil
}

// blind returns an error if the watch has been broken for some time. The caller holds the mutex.
func (v *view) blind() error {
	if v.broken.IsZero() || time.Since(v.broken) <= v.limits.stale {
		return nil
	}
	return failure("list attempts", fmt.Errorf("%s has not answered for %v: %w", v.objects.server(),
		time.Since(v.broken).Round(time.Second), v.why))
}

// subscribe returns a channel that becomes readable after each change, until stop is called. Changes coalesce.
func (v *view) subscribe() (changes <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waiting[c] = true
	return c, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.waiting, c)
	}
}

// change runs f under the mutex and notifies the subscribers.
func (v *view) change(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
	for c := range v.waiting {
		select {
		case c <- struct{}{}:
		default: // the channel is already readable
		}
	}
}

// saw records a pod if it is newer than the known version. The caller must hold v.mu.
func (v *view) saw(pod *corev1.Pod, gone bool) {
	id := pod.Annotations[container.LabelAttempt]
	if id == "" || v.removed[pod.UID] {
		return
	}
	a := v.attempt(id)
	if a.pod != nil && a.pod.UID == pod.UID {
		if order, err := resourceversion.CompareResourceVersion(pod.ResourceVersion,
			a.pod.ResourceVersion); a.podGone || err == nil && order < 0 {
			return
		}
	}
	a.pod, a.podGone, a.words = pod, gone, ""
	if state, _ := stateOf(pod); pod.DeletionTimestamp != nil && state != container.StateExited {
		a.taken = true
	}
}

// drop forgets an attempt without objects, unless an operation on it is running. That operation then drops the attempt
// when it ends. The caller must hold v.mu.
func (v *view) drop(id string, a *attempt) {
	if a.known() || v.attempts[id] != a {
		return
	}
	select {
	case a.turn <- struct{}{}:
		delete(v.attempts, id)
		<-a.turn
	default:
	}
}

// forget makes the view ignore later events about removed objects.
func (v *view) forget(j *batchv1.Job, p *corev1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if j != nil {
		v.removed[j.UID] = true
	}
	if p != nil {
		v.removed[p.UID] = true
	}
}
