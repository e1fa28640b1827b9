package recovery

import (
	"slices"
	"time"
)

// BreakerState is what a breaker lets through.
type BreakerState string

// The states.
//
//	closed ── threshold of failures within the window ──▶ open ── its time is over ──▶ half_open
//	   ▲                                                   ▲                              │
//	   │ ramp over                                         ├──── canary failed ───────────┤
//	ramp ── a failure ─────────────────────────────────────┘                              │
//	   ▲──────────────────────── enough canaries succeeded ───────────────────────────────┘
const (
	BreakerClosed   BreakerState = "closed"    // everything
	BreakerOpen     BreakerState = "open"      // nothing
	BreakerHalfOpen BreakerState = "half_open" // one canary at a time
	BreakerRamp     BreakerState = "ramp"      // a little, doubled with every step
)

// BreakerRules shape a breaker. Every field is positive, and Cap at least OpenFor.
type BreakerRules struct {
	Threshold int           // distinct tasks whose failures open it, at most 32
	Window    time.Duration // failures older than it don't count; must be longer than Threshold failures take to come
	OpenFor   time.Duration // the first time; doubled each time in a row
	Cap       time.Duration // of that
	Canaries  int           // successes in a row that end half_open
	CanaryFor time.Duration // a canary that says nothing for so long is given up
	Step      time.Duration // of the ramp
	RampTo    int           // with so many at once the ramp is over
}

// DefaultBreaker: the same failure in three tasks within two hours is an incident. The window is longer than an attempt
// lives by default (an hour), so that slow failures add up, too.
var DefaultBreaker = BreakerRules{
	Threshold: 3, Window: 2 * time.Hour, OpenFor: time.Minute, Cap: time.Hour, Canaries: 1, CanaryFor: time.Hour,
	Step: time.Minute, RampTo: 8,
}

// maxStrikes bounds the failures that a breaker remembers.
const maxStrikes = 32

// Breaker stops work on a resource, or into a failure, that is known to fail: one value per resource and per signature.
// The zero value is closed. Every method is pure and returns the new value; times never need to rise.
type Breaker struct {
	Strikes     []Strike  `json:"strikes,omitempty"` // oldest first, at most 32
	Opened      int       `json:"opened,omitempty"`  // times in a row
	Until       time.Time `json:"until,omitzero"`    // open till then, half open from then on; zero: neither
	Canary      string    `json:"canary,omitempty"`  // task that is out, half open
	CanaryUntil time.Time `json:"canary_until,omitzero"`
	Good        int       `json:"good,omitempty"`     // canaries that succeeded
	RampFrom    time.Time `json:"ramp_from,omitzero"` // zero: no ramp
	Since       time.Time `json:"since,omitzero"`     // of the incident: when it opened first; zero: none
}

// Strike is one failure that counts.
type Strike struct {
	Task string    `json:"task"`
	At   time.Time `json:"at"`
}

// State returns the state at a time.
func (b Breaker) State(r BreakerRules, now time.Time) BreakerState {
	switch {
	case !b.Until.IsZero() && now.Before(b.Until):
		return BreakerOpen
	case !b.Until.IsZero():
		return BreakerHalfOpen
	case !b.RampFrom.IsZero() && b.ramp(r, now) != Unlimited:
		return BreakerRamp
	}
	return BreakerClosed
}

// Failed records a task's failure.
func (b Breaker) Failed(r BreakerRules, now time.Time, task string) Breaker {
	state := b.State(r, now)
	b = b.settled(r, now).struck(r, now, task)
	switch {
	case state == BreakerHalfOpen && b.Canary == task, state == BreakerRamp:
		return b.opened(r, now)
	case state == BreakerClosed && len(b.Strikes) >= r.Threshold:
		return b.opened(r, now)
	}
	return b // open: running tasks prove nothing new; half open: only the canary counts
}

// struck remembers a failure.
func (b Breaker) struck(r BreakerRules, now time.Time, task string) Breaker {
	kept := make([]Strike, 0, len(b.Strikes)+1)
	for _, s := range b.Strikes {
		if now.Sub(s.At) < r.Window && s.Task != task {
			kept = append(kept, s)
		}
	}
	kept = append(kept, Strike{Task: task, At: now})
	b.Strikes = kept[max(0, len(kept)-maxStrikes):]
	return b
}

// opened opens for twice as long as the last time in a row.
func (b Breaker) opened(r BreakerRules, now time.Time) Breaker {
	if b.Since.IsZero() {
		b.Since = now
	}
	b.Opened = min(max(b.Opened, 0)+1, 64)
	_, d := Backoff{Initial: r.OpenFor, Max: r.Cap, Factor: 2}.Range(b.Opened)
	b.Until, b.RampFrom, b.Good = now.Add(d), time.Time{}, 0
	b.Canary, b.CanaryUntil = "", time.Time{}
	return b
}

// Dispatched records that a task was started. While half open, that task is the canary.
func (b Breaker) Dispatched(r BreakerRules, now time.Time, task string) Breaker {
	if b.State(r, now) == BreakerHalfOpen && !b.out(now) {
		b.Canary, b.CanaryUntil = task, now.Add(r.CanaryFor)
	}
	return b
}

// out reports whether a canary is out.
func (b Breaker) out(now time.Time) bool { return b.Canary != "" && now.Before(b.CanaryUntil) }

// Left records that a task ended without evidence about this resource: it was withdrawn, or failed for another reason.
func (b Breaker) Left(task string) Breaker {
	if b.Canary == task {
		b.Canary, b.CanaryUntil = "", time.Time{}
	}
	return b
}

// Succeeded records a task's success. While the breaker is open, only the success of a task that failed before counts.
func (b Breaker) Succeeded(r BreakerRules, now time.Time, task string) Breaker {
	state := b.State(r, now)
	b = b.settled(r, now)
	had := slices.ContainsFunc(b.Strikes, func(s Strike) bool { return s.Task == task })
	switch {
	case state == BreakerHalfOpen && b.Canary == task:
		b = b.Left(task)
		if b.Good++; b.Good >= r.Canaries {
			b.Until, b.Good, b.RampFrom, b.Strikes = time.Time{}, 0, now, nil
		}
		return b
	case state == BreakerOpen && had:
		b.Until = now
	}
	if had {
		b.Strikes = slices.DeleteFunc(slices.Clone(b.Strikes), func(s Strike) bool { return s.Task == task })
		if len(b.Strikes) == 0 {
			b.Strikes = nil // as it is read back
		}
	}
	return b
}

// settled forgets an incident whose ramp is over.
func (b Breaker) settled(r BreakerRules, now time.Time) Breaker {
	if !b.RampFrom.IsZero() && b.ramp(r, now) == Unlimited {
		b.RampFrom, b.Since, b.Opened = time.Time{}, time.Time{}, 0
	}
	return b
}

// Allow reports whether one more task may be started, and if not, when to ask again at the latest.
func (b Breaker) Allow(r BreakerRules, now time.Time) (allowed bool, until time.Time) {
	switch b.State(r, now) {
	case BreakerOpen:
		return false, b.Until
	case BreakerHalfOpen:
		if b.out(now) {
			return false, b.CanaryUntil
		}
	}
	return true, time.Time{}
}

// Limit says how many tasks may run at once: 0 while it is open, 1 half open, few on the ramp, else Unlimited.
func (b Breaker) Limit(r BreakerRules, now time.Time) int {
	switch b.State(r, now) {
	case BreakerOpen:
		return 0
	case BreakerHalfOpen:
		return 1
	case BreakerRamp:
		return b.ramp(r, now)
	}
	return Unlimited
}

// ramp is 2 at first, doubled with every step.
func (b Breaker) ramp(r BreakerRules, now time.Time) int {
	if n := 2 << min(b.steps(r, now), 24); n < r.RampTo {
		return n
	}
	return Unlimited
}

// steps is how many of the ramp's are behind.
func (b Breaker) steps(r BreakerRules, now time.Time) int64 {
	return int64(max(now.Sub(b.RampFrom)/r.Step, 0))
}

// NextDeadline returns when time alone lets more through; zero: never.
func (b Breaker) NextDeadline(r BreakerRules, now time.Time) time.Time {
	switch b.State(r, now) {
	case BreakerOpen:
		return b.Until
	case BreakerHalfOpen:
		if b.out(now) {
			return b.CanaryUntil
		}
	case BreakerRamp:
		return b.RampFrom.Add(time.Duration(b.steps(r, now)+1) * r.Step)
	}
	return time.Time{}
}

// Idle reports whether the breaker holds nothing worth keeping.
func (b Breaker) Idle(r BreakerRules, now time.Time) bool {
	if b.State(r, now) != BreakerClosed {
		return false
	}
	return !slices.ContainsFunc(b.Strikes, func(s Strike) bool { return now.Sub(s.At) < r.Window })
}
