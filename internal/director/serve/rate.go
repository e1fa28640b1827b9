package serve

import (
	"sync"
	"time"
)

// Rate counts events within the last hour. It is safe for concurrent use. The zero value is ready to use.
type Rate struct {
	mu sync.Mutex
	at []time.Time // oldest first
}

// Note counts an event. Times must not decrease.
func (r *Rate) Note(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = append(r.at, at)
	r.forget(at)
}

// LastHour returns the number of events in the hour before now.
func (r *Rate) LastHour(now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	return len(r.at)
}

func (r *Rate) forget(now time.Time) {
	old := 0
	for old < len(r.at) && now.Sub(r.at[old]) >= time.Hour {
		old++
	}
	if old > 0 {
		r.at = append(r.at[:0], r.at[old:]...)
	}
}
