// Package recovery defines the vocabulary of failures and of the decisions about them. It does not decide. Package
// classify turns Evidence into a Finding (the reason), and policy turns the Finding and the Tally of one claim into a
// Verdict (action, delay and explanation). Reasons is the table of all reasons. A new reason is one row.
//
//	Evidence ─▶ classify ─┬─▶ Finding ─▶ policy ─▶ Verdict
//	                      ├─ retryafter (stated waits)
//	                      └─ signature (fingerprint of a failure)
//	             plaintext (bounded reading of foreign text) serves all three
//
// All packages here are pure: they do not do I/O, start goroutines, or use randomness. Jitter is a hash of the caller's
// seed. Evidence.At is the only clock. Values are immutable, so the methods of Tally and Breaker return new values.
// Imports: the standard library, but not the packages below.
package recovery
