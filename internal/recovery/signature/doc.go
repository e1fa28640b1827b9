// Package signature makes fingerprints of failures: equal for the same logical failure across retries and
// machines. What differs from run to run (times, paths, ids, addresses) is replaced by the table volatile, one
// expression or finder a row.
//
// Invariant: normalising twice changes nothing more. Only the beginning of a text is read, so that the cost is bounded
// whatever its length.
// Imports: the standard library, packages recovery and plaintext.
package signature
