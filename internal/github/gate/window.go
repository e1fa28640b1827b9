package gate

import "time"

// window counts units within the last span of time.
type window struct {
	span    time.Duration
	used    int
	entries []passed
}

type passed struct {
	at time.Time
	n  int
}

// wait returns how long it takes until n more units fit within limit.
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
	if n > 0 {
		w.used += n
		w.entries = append(w.entries, passed{now, n})
	}
}

func (w *window) forget(now time.Time) {
	i := 0
	for i < len(w.entries) && now.Sub(w.entries[i].at) >= w.span {
		w.used -= w.entries[i].n
		i++
	}
	if i > 0 {
		w.entries = append(w.entries[:0], w.entries[i:]...)
	}
}
