// Package recovery defines the types that describe failures and decisions about them. Package classify turns Evidence
// into a Finding with a reason. Package policy turns the Finding and the Tally of a claim into a Verdict with action,
// delay and explanation. Reasons is the table of all reasons. A new reason needs one row.
//
//	Evidence ─▶ classify ─┬─▶ Finding ─▶ policy ─▶ Verdict
//	                      ├─ retryafter (stated waits)
//	                      └─ signature (fingerprint of a failure)
//	             plaintext (bounded reading of foreign text) serves all three
//
// All packages here are pure: they do no I/O, start no goroutines, and use no randomness. Jitter is a hash of the
// caller's seed, and Evidence.At is the only clock. Values are immutable, so the methods of Tally and Breaker return
// new ones. This package imports only the standard library.
package recovery
