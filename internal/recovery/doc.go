// Package recovery holds the words in which failures are read and answered. It decides nothing itself: classify turns
// Evidence into a Finding (what it means), policy turns the Finding and the Tally of one claim into a Verdict (what to
// do, after how long, and why). Reasons is the one table of what is known of a reason; a new reason is one row of it.
//
//	Evidence ─▶ classify ─┬─▶ Finding ─▶ policy ─▶ Verdict
//	                      ├─ retryafter (what states a wait)
//	                      └─ signature (fingerprint of a failure)
//	             plaintext (bounded reading of foreign text) serves all three
//
// Clock: none. Evidence.At is the only now. All packages here are pure: no I/O, clock, goroutine or randomness;
// jitter is a hash of the caller's seed. Invariant: values only. A Tally or Breaker is never changed, its
// methods return a new one. Imports: the standard library; none of the packages below.
package recovery
