package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	"retake/internal/container"
)

// view is what is known of the fleet: a list, brought up to date by a watch of the pods.
type view struct {
	mu       sync.Mutex
	attempts map[string]*attempt // by attempt id
	// Jobs and pods that an operation has seen gone since the last list: what is told of them later is old
	removed map[types.UID]bool
	waiting map[chan struct{}]bool
	broken  time.Time // since when there is no watch; zero: there is one
	why     error
}

// attempt is what is known of one, from its Job's or pod's first sight until Stop has collected it. The view's
// lock guards all but turn.
type attempt struct {
	turn chan struct{} // full while an operation is at it

	job     *batchv1.Job // nil: none is known
	pod     *corev1.Pod  // as it was last seen; nil: none was
	podGone bool         // and the API has it no more
	taken   bool         // it was deleted while it lived
	words   string       // why a Job has no pod
	asked   time.Time    // when that was asked

	stopping bool  // Stop is at it, and looks for itself
	killed   bool  // a deletion of ours has ended the pod, or asked it to end, while it lived
	tail     *tail // newest of its output that somebody has read here; nil: nobody has
}

func newView() view {
	return view{attempts: map[string]*attempt{}, removed: map[types.UID]bool{}, waiting: map[chan struct{}]bool{}}
}

// known reports whether the cluster has anything of it.
func (a *attempt) known() bool { return a.job != nil || a.pod != nil && !a.podGone }

// attempt returns what is known of one, or begins to know it.
func (v *view) attempt(id string) *attempt {
	a := v.attempts[id]
	if a == nil {
		a = &attempt{turn: make(chan struct{}, 1)}
		v.attempts[id] = a
	}
	return a
}

// subscribe returns a channel that has something to read after each change, until stop is called.
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

// change changes the view, and tells who waits for it.
func (v *view) change(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
	for c := range v.waiting {
		select {
		case c <- struct{}{}:
		default: // there is something to read already
		}
	}
}

// saw takes note of a pod. A watch can tell what an answer has overtaken.
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

// list asks for everything and forgets what is not there any more. What was made meanwhile stays.
func (k *Kubernetes) list(ctx context.Context) (version string, err error) {
	k.mu.Lock()
	before, pod := map[string]*attempt{}, map[string]*corev1.Pod{}
	for id, a := range k.attempts {
		if a.known() {
			before[id], pod[id] = a, a.pod
		}
	}
	clear(k.removed)
	k.mu.Unlock()
	jobs, err := k.api.jobs(ctx, k.ours())
	if err != nil {
		return "", failure("list jobs", err)
	}
	pods, version, err := k.api.pods(ctx, k.ours())
	if err != nil {
		return "", failure("list pods", err)
	}
	k.change(func() {
		there := map[string]bool{}
		for i := range pods {
			k.saw(&pods[i], false)
			there[string(pods[i].UID)] = true
		}
		found := map[string]bool{}
		for i := range jobs {
			if id := jobs[i].Annotations[container.LabelAttempt]; id != "" && !k.removed[jobs[i].UID] {
				k.attempt(id).job = &jobs[i]
				found[id] = true
			}
		}
		for id, a := range before {
			// one that was seen since is another
			if was := pod[id]; was != nil && a.pod != nil && a.pod.UID == was.UID && !there[string(was.UID)] {
				a.podGone = true
			}
			if !found[id] {
				a.job = nil
			}
			k.drop(id, a)
		}
	})
	return version, nil
}

// drop forgets an attempt of which nothing is there, unless somebody is at it: its turn ends with that.
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

// follow keeps the view up to date until Close: it watches for ever, from where it was, and lists anew when the
// API does not remember that any more, and now and then.
func (k *Kubernetes) follow(from string) {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval, wait.Multiplier = k.limits.backoff, maxBackoff, 2
	listed := time.Now()
	for k.ctx.Err() == nil {
		connected, err := k.watchOnce(&from, listed.Add(k.limits.relist))
		if connected {
			wait.Reset()
		}
		if errors.Is(err, errListAgain) {
			if from, err = k.list(k.ctx); err == nil {
				listed = time.Now()
				continue
			}
			from = ""
		}
		if err == nil {
			continue
		}
		k.lost(err)
		select {
		case <-time.After(wait.NextBackOff()):
		case <-k.ctx.Done():
		}
	}
}

func (k *Kubernetes) lost(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broken.IsZero() && k.ctx.Err() == nil {
		k.broken = time.Now()
		k.log.Warn("the watch of the pods broke, watching again", zap.Error(err))
	}
	k.why = err
}

// errListAgain ends a watch from whose place nobody can go on, or that has lasted long enough.
var errListAgain = errors.New("list again")

// watchOnce is one watch. No error: the API ended it, as it does now and then.
func (k *Kubernetes) watchOnce(from *string, until time.Time) (connected bool, err error) {
	if *from == "" || !time.Now().Before(until) {
		return false, errListAgain
	}
	ctx, cancel := context.WithDeadline(k.ctx, until)
	defer cancel()
	w, err := k.api.watchPods(ctx, k.ours(), *from)
	if err != nil {
		return false, watchError(err)
	}
	defer w.Stop()
	k.change(func() { k.broken, k.why = time.Time{}, nil })
	for e := range w.ResultChan() {
		switch e.Type {
		case watch.Error:
			return true, watchError(apierrors.FromObject(e.Object))
		case watch.Bookmark, watch.Added, watch.Modified, watch.Deleted:
			pod, ok := e.Object.(*corev1.Pod)
			if !ok {
				return true, fmt.Errorf("watch of pods told of a %T", e.Object)
			}
			*from = pod.ResourceVersion
			if e.Type != watch.Bookmark {
				k.tell(pod, e.Type == watch.Deleted)
			}
		}
	}
	if ctx.Err() != nil && k.ctx.Err() == nil {
		return true, errListAgain
	}
	return true, k.ctx.Err()
}

func watchError(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return errListAgain
	}
	return err
}

// tell takes note of an event. A pod that somebody else has removed may have gone with its Job, which nobody watches.
func (k *Kubernetes) tell(pod *corev1.Pod, gone bool) {
	k.change(func() { k.saw(pod, gone) })
	id := pod.Annotations[container.LabelAttempt]
	k.mu.Lock()
	a := k.attempts[id]
	ask := gone && a != nil && a.known() && !a.stopping
	k.mu.Unlock()
	if !ask {
		return
	}
	ctx, cancel := context.WithTimeout(k.ctx, k.limits.operation)
	defer cancel()
	job, err := k.api.job(ctx, jobName(id))
	if err != nil && !apierrors.IsNotFound(err) {
		return // the next list finds out
	}
	k.change(func() {
		a := k.attempts[id]
		if a == nil {
			return
		}
		if a.job = job; err != nil {
			a.job = nil
		}
		k.drop(id, a)
	})
}
