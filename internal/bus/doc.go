// Package bus connects the director (Bus) and the workers (Client) to the agent bus, a NATS server. It carries
// what package wire describes, keeps the director's journal, and hands out the credentials of workers. The
// server that the director runs itself is in package server below this one; the worker links this package and
// must not link a server.
//
// # Subjects and streams
//
//	             account WORKERS                              account REPORTS
//	workers ──▶ worker.<id>.error|result ─▶ intake, checked ─▶ RETAKE_REPORTS ◀── operator
//	        ──▶ worker.<id>.hello|heartbeat|progress (core)    RETAKE_DEAD (dead.<cause>)
//	        ──▶ budget.<operation>.<id> (requests)             snapshot (NATS service) ◀── operator
//	        ◀── control.<id> (core)
//	                                                          account DIRECTOR
//	                                                           journal ─▶ RETAKE_JOURNAL
//	                                                           object stores RETAKE_SNAPSHOTS, RETAKE_REBUILD
//	                                                           bucket RETAKE_KEYS (credentials), RETAKE_LEASE (who leads)
//
// Nothing crosses from one account to another but through the director.
//
// It is the same on the embedded server and on one that was joined (package keys): whoever signs in has a
// credential that the director signed. A worker's is made at its start, expires by itself, and is revoked at
// its end, in the claims of the workers' account, which the director pushes to the server when it opens the
// bus, at each reconnect and at each revocation.
//
// # Invariants
//
//   - An append succeeds only behind the sequence that the caller expects: two directors never both write. An append that
//     timed out is read back by its batch id before anything is concluded; ErrUnsure is returned only if that fails too.
//   - A journal that is not as it was written is never replayed as if it were: ErrDamaged, with the exact place (package chain).
//   - What a consumer hands out of the journal ahead is a hint: each batch is taken in its turn and by the chain, and what is not there is asked for by itself.
//   - A batch leaves the live journal only when two snapshots are beyond it and it is in the archive, synced.
//   - A report is acknowledged by the caller, never by this package, except when it cannot be read: then it is in the dead
//     letters first (or over their rate, and counted).
//   - The subject beats the payload.
//   - One process has the lease at a time, by each one's own clock (package lease).
//   - What was revoked stays revoked until it would have expired: it is written down before the server is asked anything.
//   - Of a worker that is not admitted nothing is read. What one worker sends is bounded (see Offence), and delays nothing that another
//     sends: each kind of message of each worker has subscriptions and a backlog of its own. Who sends nothing costs no goroutine.
//   - What is stored, and where answers go, is not the choice of a worker: message ids are ours, reply subjects are below its own inbox.
//   - Nobody but the director is in the account of the journal: a reply subject reaches no further than its account.
//
// # Clock
//
// Wall time stamps envelopes and Report.Received; it decides nothing. Timeouts and backoff use the monotonic clock.
//
// # Failure policy
//
// A lost connection is retried for ever, with jittered backoff; consumers are durable and found again by name,
// so that none pile up; those that read the journal ahead are removed, and go away by themselves after a
// minute. Errors at Open are permanent and say what to do next. Later errors are transient unless Permanent
// says otherwise.
//
// # Imports
//
// It imports packages wire, keys, chain, lease and safefile, and NATS's client. The director, the worker and
// the demo import it; other adapters do not.
package bus
