// Package recovery defines the vocabulary of failures and of the decisions about them. It does not decide. Package
// classify turns Evidence into a Finding (the reason), and policy turns the Finding and the Tally of one claim into a
// Verdict (action, delay and explanation). Reasons is the table of all reasons. A new reason is one row.
//
//	Evidence ─▶ classify ─┬─▶ Finding ─▶ policy ─▶ Verdict
//	                      ├─ retryafter (stated waits)
//	                      └─ signature (fingerprint of a failure)
//	             plaintext (bounded reading of foreign text) serves all three
//
// Clock: none. Evidence.At is the only now. All packages here are pure: no I/O, clock, goroutine or randomness;
// jitter is a hash of the caller's seed. Invariant: values only. A Tally or Breaker is never changed, its
// methods return a new one. Imports: the standard library; none of the packages below.
package recovery
