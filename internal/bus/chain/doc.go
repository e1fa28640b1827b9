// Package chain says what makes a journal whole: each batch names the digest of everything before it, so that a
// batch that was changed, lost or put in cannot be passed over.
//
//	head(0) = 32 zero bytes        head(n) = SHA-256(head(n-1) ‖ id(n) ‖ 0x00 ‖ data(n))
//
// A batch carries head(n-1) in its header HeaderPrev. Batches of before there was a chain have none: heads are
// computed over them just the same, and from the first batch with a header on every batch must have one, and it
// must be right. What the chain cannot tell is where the journal ended: that is what a Mirror is for, a small
// file outside of the journal's store, and the head beside each snapshot.
//
// A journal on disk, exported or archived, is a File: JSON Lines, compressed with zstd; the first line says
// what it is, the last one where it ends. A file without its last line was cut.
//
// # Invariants
//
//   - Batches are read in order, without a gap, and each links to the batches before it. Otherwise the error is a
//     *Damage with its exact place.
//   - A Mirror never records a batch before its acknowledgement. If it is ahead of the journal, the journal was cut.
//   - A file is whole or not there: it is written beside its place, synced, and renamed.
//
// # Imports
//
// It imports package safefile, and zstd. Package bus and the commands of `director journal` import it.
package chain
