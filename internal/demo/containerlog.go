package demo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/docker/docker/api/types/events"

	retake "retake/internal/container"
)

// containerEvent is what happened to a worker's container, or process.
type containerEvent struct {
	action  string // create, start, die
	attempt string
	task    string
	at      time.Time
}

// containerLog records everything that happened to the run's workers: it begins before the first one is made.
type containerLog struct {
	end context.CancelFunc
	wg  sync.WaitGroup
	mu  sync.Mutex
	all []containerEvent
	err error // the stream broke: the record has a gap
}

func (e *engine) recordEvents() *containerLog {
	ctx, cancel := context.WithCancel(context.Background())
	l := &containerLog{end: cancel}
	filter := e.fleetFilter()
	filter.Add("type", string(events.ContainerEventType))
	messages, failed := e.api.Events(ctx, events.ListOptions{Filters: filter})
	l.wg.Go(func() {
		for {
			select {
			case m := <-messages:
				l.add(containerEvent{
					action: string(m.Action), attempt: m.Actor.Attributes[retake.LabelAttempt],
					task: m.Actor.Attributes[retake.LabelTask], at: time.Unix(0, m.TimeNano),
				})
			case err := <-failed:
				if ctx.Err() == nil {
					l.mu.Lock()
					l.err = fmt.Errorf("demo: the engine's events broke off: %w", err)
					l.mu.Unlock()
				}
				return
			}
		}
	})
	return l
}

func (l *containerLog) add(x containerEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, x)
}

// taskOf is the task of an attempt that was seen before.
func (l *containerLog) taskOf(attempt string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.all, func(x containerEvent) bool { return x.attempt == attempt }); i >= 0 {
		return l.all[i].task
	}
	return ""
}

// stop ends the recording and returns the events.
func (l *containerLog) stop() ([]containerEvent, error) {
	l.end()
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all), l.err
}
