// Package checkouts stores checkouts that travel over the bus: a state and chunks for each task, in one bucket. The
// director publishes the checkout that an attempt begins with (Store.Open). The worker fetches it and sends
// checkpoints, which Desk answers.
//
// # Invariants
//
//   - A chunk is stored under the digest of its content.
//   - A checkpoint is accepted only if all its chunks are stored, it is within the limits, and its attempt has the
//     checkout open for writing. The state changes only by compare-and-set, so a director that has lost its lease
//     cannot change it.
package checkouts
