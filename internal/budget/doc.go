// Package budget grants leases on rate-limited resources that many workers share. These resources are the models. The
// director's service and a worker's offline limiter both use a Pool.
//
//	           ┌──────────────── wait, come back ────────────────┐
//	Acquire ──▶│ closed? (cooldown) ─▶ others first? (queue)     │──▶ lease ──▶ Release
//	           │ ─▶ no lease free? (busy) ─▶ too soon? (spacing) │      │ └────▶ Report: may close the resource
//	           └─────────────────────────────────────────────────┘      └─ expires
//
// A worker's own pool closes a resource as soon as a report asks for it (Report). The director's pool only records the
// request (Note). The state machine decides how long the report of one worker closes a resource for other workers, and
// Close applies the decision.
//
// Invariants, per resource:
//   - The pool grants at most MaxConcurrent leases at a time, with at least Spacing between two grants, and none while
//     the resource is closed. Adopt records leases that another pool granted, and may exceed these limits.
//   - After a resource was closed, only one lease is granted at a time until a call has succeeded. Otherwise all
//     waiting workers would run into the same limit together.
//   - Workers get leases in the order of their requests. The pool does not notify a waiting worker. The worker must ask
//     again when its wait is over, at most placeKept late. Otherwise the pool removes it from the queue, so that it
//     does not delay other workers.
//   - The numbers of resources, of places in a queue, and of leases and places of one worker are bounded.
//   - A later report may prolong a cooldown. Only Open shortens it.
//
// Methods take the current time. If a time is earlier than a previous one, the pool uses the previous one.
//
// Failure policy: a Pool is soft state. After a restart, the new pool does not know the leases of the old one. Until
// those calls end, twice as many calls may be running. Grant ids differ from the ids of earlier pools, so a late
// Release cannot end another lease. Unreleased leases expire.
//
// The package is pure. It does not do I/O, start goroutines, log, or use channels, contexts, a clock or randomness.
// Results do not depend on map order. It imports package wire only. The director, the worker and package agent import
// it.
package budget
