package recovery

import (
	"slices"
	"time"
)

// BreakerState determines which attempts may start.
type BreakerState string

// The states.
//
//	closed ── threshold of failures within the window ──▶ open ── its time is over ──▶ half_open
//	   ▲                                                   ▲                              │
//	   │ ramp over                                         ├──── canary failed ───────────┤
//	ramp ── threshold of failures since the canary ────────┘                              │
//	   ▲──────────────────────────── canary succeeded ────────────────────────────────────┘
const (
	BreakerClosed   BreakerState = "closed"    // all may start
	BreakerOpen     BreakerState = "open"      // none may start
	BreakerHalfOpen BreakerState = "half_open" // one canary at a time
	BreakerRamp     BreakerState = "ramp"      // a few at a time; each step doubles the number
	BreakerTold     BreakerState = "told"      // counts failures without blocking
	BreakerHeld     BreakerState = "held"      // none may start until Release
)

// Three tasks with the same failure within two hours are an incident. The window is longer than an attempt's default
// time limit of an hour, so that slow failures also count.
const (
	breakerThreshold = 3             // number of failed tasks that opens a breaker
	breakerWindow    = 2 * time.Hour // older failures do not count
	breakerOpenFor   = time.Minute   // duration of the first opening
	// breakerFactor multiplies the duration at each consecutive opening. The breaker therefore blocks work for at most
	// about one and a half times the duration of the outage.
	breakerFactor   = 1.5
	breakerOpenMost = time.Hour
	rampStep        = time.Minute
	rampTo          = 8  // the ramp ends once this many attempts may run at a time
	maxStrikes      = 32 // failures that a breaker remembers
)

// CanaryFor is the time after which a canary without a result no longer counts.
const CanaryFor = time.Hour

// Breaker stops attempts that would fail. Each resource and each failure signature has a separate breaker. The zero
// value is closed. Every method is pure and returns the new value. The times passed to the methods need not increase.
type Breaker struct {
	Strikes []Strike `json:"strikes,omitempty"` // oldest first, at most 32
	// Told means that the breaker counts failures but never opens, because time and a canary would not help.
	Told bool `json:"told,omitempty"`
	// Held means that Hold was called without Release.
	Held        bool      `json:"held,omitempty"`
	Opened      int       `json:"opened,omitempty"` // consecutive openings
	Until       time.Time `json:"until,omitzero"`   // when the breaker becomes half open, or zero
	Canary      string    `json:"canary,omitempty"` // task of the canary while half open, or empty
	CanaryUntil time.Time `json:"canary_until,omitzero"`
	RampFrom    time.Time `json:"ramp_from,omitzero"` // zero if there is no ramp
	Since       time.Time `json:"since,omitzero"`     // first opening of the incident, or zero
}

// Strike is one failure that counts toward opening a breaker.
type Strike struct {
	Task string    `json:"task"`
	At   time.Time `json:"at"`
}

// State returns the state at the given time.
func (b Breaker) State(now time.Time) BreakerState {
	switch {
	case b.Held:
		return BreakerHeld
	case b.Told && len(b.Alike(now)) > 0:
		return BreakerTold
	case b.Told:
		return BreakerClosed
	case !b.Until.IsZero() && now.Before(b.Until):
		return BreakerOpen
	case !b.Until.IsZero():
		return BreakerHalfOpen
	case !b.RampFrom.IsZero() && b.ramp(now) < rampTo:
		return BreakerRamp
	}
	return BreakerClosed
}

// Failed records a task's failure. After a recovery the breaker has no strikes, so it takes breakerThreshold new
// failures to open it.
func (b Breaker) Failed(now time.Time, task string) Breaker {
	state := b.State(now)
	b = b.settled(now).struck(now, task)
	switch {
	case b.Told:
	case state == BreakerHalfOpen && b.Canary == task:
		return b.opened(now)
	case (state == BreakerClosed || state == BreakerRamp) && len(b.Strikes) >= breakerThreshold:
		return b.opened(now)
	}
	return b // While open, failures of running tasks are expected. While half open, only the canary counts.
}

// Hold prevents all starts until Release is called.
func (b Breaker) Hold(now time.Time) Breaker {
	if b.Held {
		return b
	}
	return Breaker{Held: true, Opened: 1, Since: now}
}

// Release ends a Hold. All tasks may start at once, because the cause is known to be gone.
func (b Breaker) Release() Breaker { return Breaker{Since: b.Since} }

// struck records a failure as a strike.
func (b Breaker) struck(now time.Time, task string) Breaker {
	kept := slices.DeleteFunc(b.Recent(now), func(s Strike) bool { return s.Task == task })
	kept = append(kept, Strike{Task: task, At: now})
	b.Strikes = kept[max(0, len(kept)-maxStrikes):]
	return b
}

// opened opens the breaker. Each consecutive opening lasts 1.5 times as long, up to breakerOpenMost.
func (b Breaker) opened(now time.Time) Breaker {
	if b.Since.IsZero() {
		b.Since = now
	}
	b.Opened = min(max(b.Opened, 0)+1, 64)
	_, d := Backoff{Initial: breakerOpenFor, Max: breakerOpenMost, Factor: breakerFactor}.Range(b.Opened)
	b.Until, b.RampFrom = now.Add(d), time.Time{}
	b.Canary, b.CanaryUntil = "", time.Time{}
	return b
}

// Dispatched records the start of a task. While half open, that task becomes the canary.
func (b Breaker) Dispatched(now time.Time, task string) Breaker {
	if b.State(now) == BreakerHalfOpen && !b.out(now) {
		b.Canary, b.CanaryUntil = task, now.Add(CanaryFor)
	}
	return b
}

// out reports whether a canary is running and has not timed out yet.
func (b Breaker) out(now time.Time) bool { return b.Canary != "" && now.Before(b.CanaryUntil) }

// Left records that a task ended without evidence about this resource: it was withdrawn, or failed for another reason.
func (b Breaker) Left(task string) Breaker {
	if b.Canary == task {
		b.Canary, b.CanaryUntil = "", time.Time{}
	}
	return b
}

// Succeeded records a task's success. While open, only the success of a task that failed before counts.
func (b Breaker) Succeeded(now time.Time, task string) Breaker {
	state := b.State(now)
	b = b.settled(now)
	had := slices.ContainsFunc(b.Strikes, func(s Strike) bool { return s.Task == task })
	switch {
	case state == BreakerHalfOpen && b.Canary == task:
		b = b.Left(task)
		b.Until, b.RampFrom, b.Strikes = time.Time{}, now, nil
		return b
	case state == BreakerOpen && had:
		b.Until = now
	}
	if had {
		b.Strikes = slices.DeleteFunc(slices.Clone(b.Strikes), func(s Strike) bool { return s.Task == task })
		if len(b.Strikes) == 0 {
			b.Strikes = nil // nil, the same as after decoding
		}
	}
	return b
}

// settled resets the incident once its ramp is over.
func (b Breaker) settled(now time.Time) Breaker {
	if !b.RampFrom.IsZero() && b.ramp(now) >= rampTo {
		b.RampFrom, b.Since, b.Opened = time.Time{}, time.Time{}, 0
	}
	return b
}

// Allow reports whether another task may start. running is the number of running tasks.
func (b Breaker) Allow(now time.Time, running int) bool {
	switch b.State(now) {
	case BreakerOpen, BreakerHeld:
		return false
	case BreakerHalfOpen:
		return !b.out(now)
	case BreakerRamp:
		return running < b.ramp(now)
	}
	return true
}

// ramp returns the number of attempts that may run at once. It starts at 2 and doubles with every step.
func (b Breaker) ramp(now time.Time) int {
	return 2 << min(b.steps(now), 24)
}

// steps returns the number of completed ramp steps.
func (b Breaker) steps(now time.Time) int64 {
	return int64(max(now.Sub(b.RampFrom)/rampStep, 0))
}

// NextDeadline returns the next time at which more attempts may start, or zero.
func (b Breaker) NextDeadline(now time.Time) time.Time {
	switch b.State(now) {
	case BreakerOpen:
		return b.Until
	case BreakerHalfOpen:
		if b.out(now) {
			return b.CanaryUntil
		}
	case BreakerRamp:
		return b.RampFrom.Add(time.Duration(b.steps(now)+1) * rampStep)
	}
	return time.Time{}
}

// KeepsBack reports whether all attempts except a canary must wait.
func (b Breaker) KeepsBack(now time.Time) bool {
	s := b.State(now)
	return s == BreakerOpen || s == BreakerHalfOpen || s == BreakerHeld
}

// Idle reports whether the breaker can be discarded.
func (b Breaker) Idle(now time.Time) bool {
	return b.State(now) == BreakerClosed && len(b.Recent(now)) == 0
}

// Recent returns the failures within the window, one for each task.
func (b Breaker) Recent(now time.Time) []Strike {
	return slices.DeleteFunc(slices.Clone(b.Strikes), func(s Strike) bool { return now.Sub(s.At) >= breakerWindow })
}

// Alike returns the tasks that failed alike, or nil if there are too few for an incident.
func (b Breaker) Alike(now time.Time) (tasks []string) {
	for _, s := range b.Recent(now) {
		tasks = append(tasks, s.Task)
	}
	if len(tasks) < breakerThreshold {
		return nil
	}
	return tasks
}
