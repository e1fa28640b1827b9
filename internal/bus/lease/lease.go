// Package lease decides how long a process leads and when another may take over. The processes share only a register
// with revisions, which they write by compare-and-set. They never compare their clocks. The register can be lost and
// recreated.
//
//	holder   sends a renewal ──▶ stored ──▶ …   leads until one period after it *sent* the last stored renewal
//	other                  sees it ──▶ a period passes without a newer one ──▶ takes over
//
// # Invariants
//
//   - A holder's term ends before another process can take the lease. The holder measures the period from when it sent
//     a renewal. The others measure it from when they saw the renewal, which is later.
//
// # Clock
//
// Callers pass positive durations read from their local clock. That clock must never be set, and must advance while the
// process or the machine is suspended.
//
// # Imports
//
// It imports only package time. Package leadership and the simulator use it.
package lease

import "time"

// Renewal is one state of the register. A recreated register numbers its revisions from 1 again, so the revision alone
// does not identify a renewal.
type Renewal struct {
	Revision uint64 // 0 if the lease is free
	// At is the time when the renewal was stored or, if the lease is free, when the register was created. Term compares
	// it only for equality.
	At int64
}

// Term holds one process's information about the lease. Its zero value with Period set is ready for use. It is not safe
// for concurrent use.
type Term struct {
	Period time.Duration // positive, and the same for all processes

	until  time.Duration // the process leads until this time; 0 if it does not lead
	last   Renewal       // last renewal by another process
	seenAt time.Duration // when last was first seen
	seen   bool
}

// Saw records the state of the register. It returns true if the state has not changed for a period, so this process may
// take the lease.
func (t *Term) Saw(r Renewal, now time.Duration) (expired bool) {
	if !t.seen || r != t.last {
		t.seen, t.last, t.seenAt = true, r, now
	}
	return now-t.seenAt >= t.Period
}

// Renewed records that the register holds a renewal that this process sent at the given time. The process leads for one
// period from then.
func (t *Term) Renewed(sent time.Duration) { t.until = max(t.until, sent+t.Period) }

// End ends the term at once.
func (t *Term) End() { t.until = 0 }

// Leads reports whether the process holds the lease.
func (t *Term) Leads(now time.Duration) bool { return now < t.until }

// Left returns the time left in the term. It is zero or negative once the term is over.
func (t *Term) Left(now time.Duration) time.Duration { return t.until - now }
