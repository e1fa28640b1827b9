// Package chain verifies the integrity of a journal. Each batch names the digest of all earlier batches, so a changed,
// lost or inserted batch is always detected.
//
//	head(0) = 32 zero bytes        head(n) = SHA-256(head(n-1) ‖ id(n) ‖ 0x00 ‖ data(n))
//
// A batch carries head(n-1) in its header HeaderPrev. Batches from before the chain existed have no header, but heads
// are computed over them as well. After the first batch with a header, every batch must have a correct header. The
// chain cannot tell where the journal ended. A Mirror, a small file outside the journal's store, and the head of each
// snapshot record that.
//
// A journal on disk, exported or archived, is a File of JSON Lines, compressed with zstd. The first line identifies the
// file, and the last line marks its end. A file without the last line was cut.
//
// # Invariants
//
//   - Batches are read in order, without a gap, and each links to the batches before it. Otherwise the error is a
//     *Damage with the exact position.
//   - A Mirror never records a batch before its acknowledgement. If it is ahead of the journal, the journal was cut.
//   - A file is complete or absent, because it is written under another name, synced and then renamed.
//
// # Imports
//
// It imports package safefile, and zstd. Package bus and the commands of `director journal` import it.
package chain
