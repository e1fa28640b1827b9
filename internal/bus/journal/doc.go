// Package journal stores the director's decisions in a NATS stream. Each batch carries the digest of all batches before
// it (package chain). The package also keeps snapshots of the resulting state, an archive of old batches, and a mirror
// of the journal's head outside the server.
//
// # Invariants
//
//   - An append succeeds only if the journal ends at the sequence that the caller expects, so two directors never both
//     write. After a timeout, Append reads the id of the next batch to find out whether the append was stored.
//     It returns ErrUnsure only if that also fails.
//   - A damaged journal is never replayed as if it were intact. The error is chain.ErrDamaged with the exact position.
//   - Prefetched batches are processed in order and checked against the chain. If a prefetched batch is missing, the
//     journal requests it individually.
//   - A batch leaves the live journal only after it is synced to the archive and covered by two snapshots.
//
// # Parts
//
//	Journal ──▶ live       reads and prefetches the batches in the stream
//	        ──▶ snapshots  the states in the object store
//	        ──▶ archiver   moves batches from the stream into segments
//	        ──▶ position   the journal's identity and known end; shared by all parts
package journal
