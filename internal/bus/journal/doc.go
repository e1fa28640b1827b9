// Package journal stores the director's decisions in a NATS stream. Each batch names the digest of all batches before
// it (package chain). In addition to the stream there are snapshots of the resulting state, an archive of batches that
// have left the stream, and a mirror of the journal's end outside the server.
//
// # Invariants
//
//   - An append succeeds only directly after the sequence that the caller expects, so two directors never both write.
//     After a timeout, Append reads the next batch and compares its id, to find out whether the append was stored. It
//     returns ErrUnsure only if that also fails.
//   - A damaged journal is never replayed as if it were intact. The error is chain.ErrDamaged with the exact position.
//   - Prefetched batches are processed in order and checked by the chain. If a prefetched batch is missing, the journal
//     requests it individually.
//   - A batch leaves the live journal only when it is synced in the archive and two snapshots cover it.
//
// # Parts
//
//	Journal ──▶ live       the batches in the stream, and reading them ahead
//	        ──▶ snapshots  the states in the object store
//	        ──▶ archiver   moves batches from the stream into segments
//	        ──▶ position   which journal this is, and how far it goes; shared by all
package journal
