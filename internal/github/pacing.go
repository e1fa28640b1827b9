package github

import "time"

// GitHub's documented secondary limits for REST, per credential.
const (
	pointsPerMinute   = 900
	pointsOfRead      = 1
	pointsOfWrite     = 5
	contentPerMinute  = 80
	contentPerHour    = 500
	progressPerHour   = 400 // progress edits leave the rest of the hour to what people wait for
	leastBetween      = time.Second
	defaultBetween    = 2 * time.Second
	defaultConcurrent = 2
	defaultCooldown   = 60 * time.Second
)

// window counts units over the last span.
type window struct {
	span    time.Duration
	used    int
	entries []passed
}

type passed struct {
	at time.Time
	n  int
}

// wait tells how long n more units have to wait to stay within limit; 0: they may pass now.
func (w *window) wait(now time.Time, n, limit int) time.Duration {
	w.forget(now)
	over := w.used + n - limit
	if over <= 0 {
		return 0
	}
	for _, e := range w.entries {
		if over -= e.n; over <= 0 {
			return e.at.Add(w.span).Sub(now)
		}
	}
	return w.span
}

func (w *window) take(now time.Time, n int) {
	w.used += n
	w.entries = append(w.entries, passed{now, n})
}

func (w *window) forget(now time.Time) {
	i := 0
	for i < len(w.entries) && now.Sub(w.entries[i].at) >= w.span {
		w.used -= w.entries[i].n
		i++
	}
	w.entries = append(w.entries[:0], w.entries[i:]...)
}
