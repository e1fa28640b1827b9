// Package budget hands out leases on rate-limited resources that many workers share: the models. The director's
// service and a worker's own limiter, which applies while the director is away, are the same Pool.
//
//	           ┌──────────────── wait, come back ────────────────┐
//	Acquire ──▶│ closed? (cooldown) ─▶ others first? (queue)     │──▶ lease ──▶ Release
//	           │ ─▶ no lease free? (busy) ─▶ too soon? (spacing) │      │ └────▶ Report: may close the resource
//	           └─────────────────────────────────────────────────┘      └─ expires
//
// A worker's own pool believes each report. The director's only notes what it asks for (Note): for how long one
// worker's word closes a resource for the others is the machine's decision, and Close carries it out.
//
// Invariants, per resource:
//   - At most MaxConcurrent leases at a time, at least Spacing between two grants, none while the resource is closed.
//     (Adopt records what somebody else granted, and may exceed that.)
//   - After it was closed, one lease at a time until a call has gone well: six workers that were waiting must not run
//     into the same limit together.
//   - First come, first served. Nobody is notified: who was told to wait keeps the place by asking again in time, at most
//     placeKept late. Who does not loses it and delays nobody.
//   - Everything is bounded: resources, places in a queue, leases and places of one worker.
//   - A cooldown is prolonged by a later one; nothing but Open cuts it short.
//
// Clock assumption: none. Every method takes the time; a time that goes back counts as the newest one seen.
//
// Failure policy: a Pool is soft state. After a restart its leases are forgotten: until those calls end, as
// many again may be granted. Grant ids differ from those of the pool before, so that a late Release frees
// nothing else. What nobody releases expires.
//
// The package is pure: no I/O, clock, goroutine, channel, context, randomness or logging, and no result depends on the
// order of a map. It imports package wire only; the director, the worker and package agent import it.
package budget
