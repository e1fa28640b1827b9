// Package budget hands out leases on rate-limited resources that many workers share, which are the models. The
// director's service and a worker's offline limiter both use a Pool.
//
//	           ┌──────────────── wait, come back ────────────────┐
//	Acquire ──▶│ closed? (cooldown) ─▶ others first? (queue)     │──▶ lease ──▶ Release
//	           │ ─▶ no lease free? (busy) ─▶ too soon? (spacing) │      │ └────▶ Report: may close the resource
//	           └─────────────────────────────────────────────────┘      └─ expires
//
// A worker's own pool believes each report. The director's pool only records what reports ask for (Note). The machine
// decides how long one worker's report closes a resource for others, and Close applies the decision.
//
// Invariants, per resource:
//   - At most MaxConcurrent leases at a time, at least Spacing between two grants, none while the resource is closed.
//     (Adopt records leases granted elsewhere, and may exceed that.)
//   - After a resource was closed, only one lease is granted at a time until a call has succeeded. Otherwise all
//     waiting workers would run into the same limit together.
//   - First come, first served. There are no notifications. A waiting worker must ask again in time, at most placeKept
//     late, to stay in the queue. Otherwise it leaves the queue and does not delay other workers.
//   - Everything is bounded: resources, places in a queue, leases and places of one worker.
//   - A later report may prolong a cooldown. Only Open shortens it.
//
// Every method takes the current time. A time that goes back counts as the newest time seen.
//
// Failure policy: a Pool is soft state. A restart forgets its leases, so until those calls end, as many leases may be
// granted again. Grant ids differ from the ids of earlier pools, so a late Release cannot free another grant.
// Unreleased leases expire.
//
// The package is pure. It does not do I/O, start goroutines, log, or use channels, contexts, a clock or randomness.
// Results do not depend on map order. It imports package wire only. The director, the worker and package agent import
// it.
package budget
