package kubernetes

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watchPods starts a watch at a version. It returns an error if the history no longer contains that version. The watch
// sends a bookmark after each batch of events.
func (f *fake) watchPods(ctx context.Context, selector, from string) (watch.Interface, error) {
	if err := f.ask(Right{"watch", "", "pods", ""}); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	at, err := strconv.Atoi(from)
	if err != nil {
		return nil, apierrors.NewBadRequest(from)
	}
	if at < f.oldest {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", at, f.oldest))
	}
	f.watches++
	w := &fakeWatch{events: make(chan watch.Event), stop: make(chan struct{})}
	context.AfterFunc(ctx, w.Stop)
	number, late := f.watches, f.late
	f.work.Go(func() {
		defer close(w.events)
		time.Sleep(late)
		f.serve(w, number, selector, at)
	})
	return w, nil
}

func (f *fake) serve(w *fakeWatch, number int, selector string, at int) {
	stopped := context.AfterFunc(w, f.changed.Broadcast)
	defer stopped()
	for {
		f.mu.Lock()
		var due []watch.Event
		for {
			for _, e := range f.history {
				if p := e.Object.(*corev1.Pod); versionOf(p) > at && selects(selector, p.Labels) {
					due = append(due, watch.Event{Type: e.Type, Object: p.DeepCopy()})
				}
			}
			if len(due) > 0 || f.over || f.away || number < f.cut || w.Err() != nil {
				break
			}
			f.changed.Wait()
		}
		closed := f.over || f.away || number < f.cut || w.Err() != nil
		f.mu.Unlock()
		if closed {
			return
		}
		for _, e := range due {
			at = versionOf(e.Object.(*corev1.Pod))
			if !w.send(e) {
				return
			}
		}
		if !w.send(watch.Event{
			Type:   watch.Bookmark,
			Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(at)}},
		}) {
			return
		}
	}
}

func versionOf(p *corev1.Pod) int { n, _ := strconv.Atoi(p.ResourceVersion); return n }

// fakeWatch is a watch, and also a context that ends with the watch.
type fakeWatch struct {
	events chan watch.Event
	once   sync.Once
	stop   chan struct{}
}

func (w *fakeWatch) ResultChan() <-chan watch.Event     { return w.events }
func (w *fakeWatch) Stop()                              { w.once.Do(func() { close(w.stop) }) }
func (w *fakeWatch) Deadline() (at time.Time, has bool) { return at, false }
func (w *fakeWatch) Done() <-chan struct{}              { return w.stop }
func (w *fakeWatch) Value(any) any                      { return nil }
func (w *fakeWatch) Err() error {
	select {
	case <-w.stop:
		return context.Canceled
	default:
		return nil
	}
}

func (w *fakeWatch) send(e watch.Event) bool {
	select {
	case w.events <- e:
		return true
	case <-w.stop:
		return false
	}
}
