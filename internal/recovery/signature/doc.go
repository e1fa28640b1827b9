// Package signature computes failure fingerprints, which are the same for the same logical failure across retries and
// machines. The table volatile describes the parts that vary between runs (times, paths, ids, addresses), each with an
// expression or a function that finds it. These parts are replaced before the text is hashed.
//
// Invariant: normalising is idempotent. It reads only the beginning of a text, so its cost is bounded. Imports: the
// standard library, packages recovery and plaintext.
package signature
