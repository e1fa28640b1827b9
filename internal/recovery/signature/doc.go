// Package signature makes fingerprints of failures, which are equal for the same logical failure across retries and
// machines. The table volatile describes the parts that vary between runs (times, paths, ids, addresses), each with an
// expression or a function that finds it. They are replaced before hashing.
//
// Invariant: normalising is idempotent. It reads only the beginning of a text, so the cost has a limit. Imports: the
// standard library, packages recovery and plaintext.
package signature
