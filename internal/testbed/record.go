package testbed

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Event is a change in the state of a worker's container or process.
type Event struct {
	Action  string // create, start, die
	Attempt string
	Task    string
	At      time.Time
}

// Record collects all changes to a fleet's workers. Start it before the first worker is created.
type Record struct {
	end context.CancelFunc
	wg  sync.WaitGroup
	mu  sync.Mutex
	all []Event
	err error // set if the source failed and the record has a gap
}

// NewRecord starts a record. watch fills it with Add until its context is done.
func NewRecord(watch func(context.Context, *Record) error) *Record {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Record{end: cancel}
	r.wg.Go(func() {
		if err := watch(ctx, r); ctx.Err() == nil {
			r.mu.Lock()
			r.err = fmt.Errorf("testbed: read worker events: %w", err)
			r.mu.Unlock()
		}
	})
	return r
}

// Add appends an event.
func (r *Record) Add(x Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, x)
}

// Stop ends the record and returns its events. An error means that events are missing.
func (r *Record) Stop() ([]Event, error) {
	r.end()
	r.wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all), r.err
}

// compare adds the changes since the last list. before maps each attempt id in the last list to whether it was
// alive. Deaths come first, because on a busy machine one attempt may end and the next begin between two lists.
func (r *Record) compare(before map[string]bool, list []Worker) map[string]bool {
	now, at := map[string]bool{}, time.Now()
	for _, w := range list {
		now[w.Attempt] = w.Lives
	}
	for attempt, lived := range before {
		if lived && !now[attempt] {
			r.Add(Event{Action: "die", Attempt: attempt, Task: r.taskOf(attempt), At: at})
		}
	}
	for _, w := range list {
		lived, known := before[w.Attempt]
		if !known {
			r.Add(Event{Action: "create", Attempt: w.Attempt, Task: w.Task, At: at})
		}
		if w.Lives && !lived {
			r.Add(Event{Action: "start", Attempt: w.Attempt, Task: w.Task, At: at})
		}
	}
	return now
}

// taskOf returns the task of an attempt, as recorded in an earlier event.
func (r *Record) taskOf(attempt string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.all, func(x Event) bool { return x.Attempt == attempt }); i >= 0 {
		return r.all[i].Task
	}
	return ""
}
