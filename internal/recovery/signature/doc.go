// Package signature makes fingerprints of failures: equal for the same logical failure across retries and machines. The
// table volatile replaces the parts that vary between runs (times, paths, ids, addresses), with one expression or
// finder per row.
//
// Invariant: normalising is idempotent. It reads only the beginning of a text, so the cost is bounded. Imports: the
// standard library, packages recovery and plaintext.
package signature
