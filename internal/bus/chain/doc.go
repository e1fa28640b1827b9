// Package chain verifies the integrity of a journal. Each batch carries the digest of all earlier batches, so a
// changed, lost or inserted batch is always detected.
//
//	head(0) = 32 zero bytes        head(n) = SHA-256(head(n-1) ‖ id(n) ‖ 0x00 ‖ data(n))
//
// A batch carries head(n-1) in its header HeaderPrev. Batches written by older versions do not have the header, but
// heads cover them as well. After the first batch with a header, every batch must have a correct header. The chain
// alone cannot show that batches are missing at the end. The Mirror, a small file outside the journal's store, and the
// head of each snapshot therefore record how far the journal reached.
//
// A journal on disk, exported or archived, is a File of JSON Lines, compressed with zstd. The first line identifies the
// file, and the last line marks its end. A file without that last line was truncated.
//
// # Invariants
//
//   - Batches are read in order, without gaps, and each carries the digest of the batches before it. Otherwise reading
//     fails with a *Damage that gives the exact position.
//   - A Mirror never records a batch before the server has acknowledged it. If the Mirror is ahead of the journal, the
//     journal was truncated.
//   - A file is complete or absent, because it is written under another name, synced and then renamed.
//
// # Imports
//
// It imports package safefile and zstd. Package bus and the `director journal` commands import it.
package chain
