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

// life is what happened to a worker's container, or process.
type life struct {
	action  string // create, start, die
	attempt string
	task    string
	at      time.Time
}

// lives records what happened to the run's workers, all of it: it is begun before the first one is made.
type lives struct {
	end context.CancelFunc
	wg  sync.WaitGroup
	mu  sync.Mutex
	all []life
	err error // the stream broke: the record has a gap
}

func (e *engine) record() *lives {
	ctx, cancel := context.WithCancel(context.Background())
	l := &lives{end: cancel}
	filter := e.ours()
	filter.Add("type", string(events.ContainerEventType))
	messages, failed := e.api.Events(ctx, events.ListOptions{Filters: filter})
	l.wg.Go(func() {
		for {
			select {
			case m := <-messages:
				l.add(life{
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

func (l *lives) add(x life) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, x)
}

// taskOf is the task of an attempt that was seen before.
func (l *lives) taskOf(attempt string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.all, func(x life) bool { return x.attempt == attempt }); i >= 0 {
		return l.all[i].task
	}
	return ""
}

// stop ends the recording and returns it.
func (l *lives) stop() ([]life, error) {
	l.end()
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all), l.err
}

// twins says what must never be: an attempt's container that was created twice, or two of one issue that ran together.
func twins(all []life) []string {
	var wrong []string
	created := map[string]int{}
	running := map[string]string{} // task → attempt
	for _, x := range all {
		switch x.action {
		case "create":
			if created[x.attempt]++; created[x.attempt] == 2 {
				wrong = append(wrong, fmt.Sprintf("%s: the container of attempt %s was created twice", x.task, x.attempt))
			}
		case "start":
			if other := running[x.task]; other != "" && other != x.attempt {
				wrong = append(wrong, fmt.Sprintf("%s: attempts %s and %s ran at the same time", x.task, other, x.attempt))
			}
			running[x.task] = x.attempt
		case "die":
			if running[x.task] == x.attempt {
				delete(running, x.task)
			}
		}
	}
	return wrong
}
