// Package lease decides for how long a process leads, and when another may. Two processes share a register with
// revisions, which one of them writes at a time by compare-and-set, and nothing else: no clock is compared with
// another one. The register may be lost, and made anew.
//
//	holder   sends a renewal ──▶ stored ──▶ …         leads until one period after it has *sent* the last renewal that was stored
//	other                  sees it ──▶ a period without another one: takes it
//
// # Invariants
//
//   - What a holder does within its lease is done before another one can have it: a renewal is sent before it is seen.
//
// # Clock
//
// Callers pass durations, above 0, of a clock of their own that is never set, and goes on while the process or
// the machine is suspended.
//
// # Imports
//
// It imports the standard library's time only. Package bus and the simulator use it.
package lease

import "time"

// Renewal is one state of the register. A register that is made anew counts from the beginning again, so that a
// revision alone says nothing of the one before.
type Renewal struct {
	Revision uint64 // 0: nobody has the lease
	// names when it was stored; without a lease, when the register was made. It is compared for being the same only
	At int64
}

// Term is what one process knows of the lease. The zero value but for Period is that of one that has seen
// nothing. It is not safe for concurrent use.
type Term struct {
	Period time.Duration // > 0; the same for all

	until  time.Duration // it leads before; 0: it does not
	last   Renewal       // of another's lease
	seenAt time.Duration // when it was first seen
	seen   bool
}

// Saw reports whether the lease as it is may be taken: it has been the same for a period.
func (t *Term) Saw(r Renewal, now time.Duration) (expired bool) {
	if !t.seen || r != t.last {
		t.seen, t.last, t.seenAt = true, r, now
	}
	return now-t.seenAt >= t.Period
}

// Renewed says that what was sent at a time was stored: this process leads from now on, or for longer.
func (t *Term) Renewed(sent time.Duration) { t.until = max(t.until, sent+t.Period) }

// End gives the lease up.
func (t *Term) End() { t.until = 0 }

// Leads: the lease is this process's.
func (t *Term) Leads(now time.Duration) bool { return now < t.until }

// Left is how much of the lease is left; ≤ 0: it is over.
func (t *Term) Left(now time.Duration) time.Duration { return t.until - now }
