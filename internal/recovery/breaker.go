package recovery

import (
	"slices"
	"time"
)

// BreakerState decides which attempts pass.
type BreakerState string

// The states.
//
//	closed ── threshold of failures within the window ──▶ open ── its time is over ──▶ half_open
//	   ▲                                                   ▲                              │
//	   │ ramp over                                         ├──── canary failed ───────────┤
//	ramp ── threshold of failures since the canary ────────┘                              │
//	   ▲──────────────────────────── canary succeeded ────────────────────────────────────┘
const (
	BreakerClosed   BreakerState = "closed"    // everything
	BreakerOpen     BreakerState = "open"      // nothing
	BreakerHalfOpen BreakerState = "half_open" // one canary at a time
	BreakerRamp     BreakerState = "ramp"      // a few at once, doubled with every step
	BreakerTold     BreakerState = "told"      // counts failures without blocking
	BreakerHeld     BreakerState = "held"      // nothing, until the director sees that the cause is gone
)

// The same failure in three tasks within two hours is an incident. The window is longer than the default lifetime of an
// attempt (an hour), so that slow failures also add up.
const (
	breakerThreshold = 3             // distinct tasks whose failures open it
	breakerWindow    = 2 * time.Hour // failures older than it don't count
	breakerOpenFor   = time.Minute   // the first time
	// factor for each consecutive opening; blocks work for about half as long again as the outage lasted
	breakerFactor   = 1.5
	breakerOpenMost = time.Hour
	rampStep        = time.Minute
	rampTo          = 8  // the ramp ends at this many attempts at once
	maxStrikes      = 32 // failures that a breaker remembers
)

// CanaryFor is the timeout of a canary without a result.
const CanaryFor = time.Hour

// Breaker stops work that is known to fail. Each resource and each failure signature has a separate breaker. The zero
// value is closed. Every method is pure and returns the new value. The times passed to the methods need not rise.
type Breaker struct {
	Strikes []Strike `json:"strikes,omitempty"` // oldest first, at most 32
	// never opens, because neither time nor a canary helps; only counts failures
	Told bool `json:"told,omitempty"`
	// Hold was called, and Release was not
	Held        bool      `json:"held,omitempty"`
	Opened      int       `json:"opened,omitempty"` // times in a row
	Until       time.Time `json:"until,omitzero"`   // open until then, half open afterwards; zero if neither
	Canary      string    `json:"canary,omitempty"` // the canary's task, if any; only half open
	CanaryUntil time.Time `json:"canary_until,omitzero"`
	RampFrom    time.Time `json:"ramp_from,omitzero"` // zero without a ramp
	Since       time.Time `json:"since,omitzero"`     // first opening of the incident, or zero
}

// Strike is one failure that counts toward opening a breaker.
type Strike struct {
	Task string    `json:"task"`
	At   time.Time `json:"at"`
}

// State returns the state at a time.
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

// Failed records a task's failure. A recovery clears the strikes, so opening again takes as many failures as the first
// time.
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
	return b // While open, running tasks prove nothing new. While half open, only the canary matters.
}

// Hold stops everything until Release.
func (b Breaker) Hold(now time.Time) Breaker {
	if b.Held {
		return b
	}
	return Breaker{Held: true, Opened: 1, Since: now}
}

// Release ends a Hold. Everything passes at once, because the cause is known to be gone.
func (b Breaker) Release() Breaker { return Breaker{Since: b.Since} }

// struck remembers a failure.
func (b Breaker) struck(now time.Time, task string) Breaker {
	kept := slices.DeleteFunc(b.Recent(now), func(s Strike) bool { return s.Task == task })
	kept = append(kept, Strike{Task: task, At: now})
	b.Strikes = kept[max(0, len(kept)-maxStrikes):]
	return b
}

// opened opens the breaker. Each consecutive opening lasts half as long again, up to breakerOpenMost.
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

// Dispatched records that a task was started. While half open, that task is the canary.
func (b Breaker) Dispatched(now time.Time, task string) Breaker {
	if b.State(now) == BreakerHalfOpen && !b.out(now) {
		b.Canary, b.CanaryUntil = task, now.Add(CanaryFor)
	}
	return b
}

// out reports whether a canary has started and not timed out.
func (b Breaker) out(now time.Time) bool { return b.Canary != "" && now.Before(b.CanaryUntil) }

// Left records that a task ended without evidence about this resource: it was withdrawn, or failed for another reason.
func (b Breaker) Left(task string) Breaker {
	if b.Canary == task {
		b.Canary, b.CanaryUntil = "", time.Time{}
	}
	return b
}

// Succeeded records a task's success. While the breaker is open, only the success of a task that failed before counts.
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
			b.Strikes = nil // as after decoding
		}
	}
	return b
}

// settled removes an incident after its ramp.
func (b Breaker) settled(now time.Time) Breaker {
	if !b.RampFrom.IsZero() && b.ramp(now) >= rampTo {
		b.RampFrom, b.Since, b.Opened = time.Time{}, time.Time{}, 0
	}
	return b
}

// Allow reports whether one more task may be started while so many run.
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

// ramp returns how many attempts may run at once: 2 at first, doubled with every step.
func (b Breaker) ramp(now time.Time) int {
	return 2 << min(b.steps(now), 24)
}

// steps returns the number of completed ramp steps.
func (b Breaker) steps(now time.Time) int64 {
	return int64(max(now.Sub(b.RampFrom)/rampStep, 0))
}

// NextDeadline returns the next time at which more attempts pass, or zero.
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

// KeepsBack reports whether the breaker stops everything except a canary.
func (b Breaker) KeepsBack(now time.Time) bool {
	s := b.State(now)
	return s == BreakerOpen || s == BreakerHalfOpen || s == BreakerHeld
}

// Idle reports whether the breaker can be discarded.
func (b Breaker) Idle(now time.Time) bool {
	return b.State(now) == BreakerClosed && len(b.Recent(now)) == 0
}

// Recent returns the failures in the window, one for each task.
func (b Breaker) Recent(now time.Time) []Strike {
	return slices.DeleteFunc(slices.Clone(b.Strikes), func(s Strike) bool { return now.Sub(s.At) >= breakerWindow })
}

// Alike returns the tasks of an incident, or nil if they are too few for an incident.
func (b Breaker) Alike(now time.Time) (tasks []string) {
	for _, s := range b.Recent(now) {
		tasks = append(tasks, s.Task)
	}
	if len(tasks) < breakerThreshold {
		return nil
	}
	return tasks
}
