// Package budget grants leases on rate-limited resources shared by many workers. These resources are the models. The
// director's service and a worker's offline limiter both use a Pool.
//
//	           ┌──────────────── wait, come back ────────────────┐
//	Acquire ──▶│ closed? (cooldown) ─▶ others first? (queue)     │──▶ lease ──▶ Release
//	           │ ─▶ no lease free? (busy) ─▶ too soon? (spacing) │      │ └────▶ Report: may close the resource
//	           └─────────────────────────────────────────────────┘      └─ expires
//
// A worker's own pool closes a resource as soon as a report asks for it (Report). The director's pool only records the
// request (Note). The state machine decides how long one worker's report closes a resource for other workers, and Close
// applies the decision.
//
// Invariants, per resource:
//   - The pool grants at most MaxConcurrent leases at a time, with at least Spacing between two grants, and none while
//     the resource is closed. Adopt records leases granted by another pool, even if they exceed these limits.
//   - After a resource has been closed, only one lease is granted at a time until a call has succeeded. Otherwise all
//     waiting workers would run into the same limit at once.
//   - Workers get leases in the order of their requests. The pool does not notify waiting workers, so a worker must
//     ask again when its wait is over, at most placeKept late. Otherwise the pool removes it from the queue, so that
//     it does not delay other workers.
//   - The number of resources, the length of each queue, and each worker's leases and places are bounded.
//   - A later report can extend a cooldown. Only Open shortens it.
//
// Methods take the current time. If it is earlier than in a previous call, the pool uses the previous time.
//
// Failure policy: a Pool is soft state. After a restart, the new pool does not know the leases granted by the old one.
// Until those calls end, twice as many calls may be running. A new pool does not reuse grant ids, so a late Release
// cannot end another lease. Unreleased leases expire.
//
// The package is pure. It does not do I/O, start goroutines, log, or use channels, contexts, a clock or randomness.
// Results do not depend on map order. It imports only package wire. The director, the worker and package agent import
// it.
package budget
