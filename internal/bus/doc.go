// Package bus connects the director (Bus) and the workers (Client) to the agent bus, a NATS server. It carries
// the messages of package wire, keeps the director's journal and issues the workers' credentials. The server
// run by the director itself is in package bus/server. The worker links this package and must not link a
// server.
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
//	                                                           bucket RETAKE_KEYS (credentials), RETAKE_LEASE (leader)
//
// Only the director passes data from one account to another.
//
// On embedded and joined servers, every client signs in with a credential signed by the director (package keys). A
// worker's credential is issued at its start, expires on its date, and is revoked at its end. Revocations are part of
// the claims of the workers' account. The director pushes these to the server when it opens the bus, at each reconnect
// and at each revocation.
//
// # Invariants
//
//   - Reports are acknowledged by the caller, never by this package. The exception is an unreadable report,
//     which is first stored as a dead letter (or counted, beyond their rate).
//   - If the subject and the payload disagree about the sender, the subject takes precedence.
//   - A revocation lasts until the credential would have expired. It is written to disk before any request to
//     the server.
//   - Messages from a worker that is not admitted are not read. The messages from one worker are bounded (see Offence),
//     and do not delay other workers, because each kind of message of each worker has separate subscriptions and a
//     separate backlog. A silent worker does not use a goroutine.
//   - Workers cannot choose message ids or destinations of answers. The director makes the message ids, and reply
//     subjects must be below the worker's inbox.
//   - Only the director is in the account of the journal, and reply subjects do not reach beyond their account.
//
// # Clock
//
// Wall time stamps envelopes and Report.Received, but does not affect decisions. Timeouts and backoff use the
// monotonic clock.
//
// # Failure policy
//
// A lost connection is retried without limit, with jittered backoff. Consumers are durable and found again by
// name, so they do not pile up. Errors of Open are permanent, and tell the user how to proceed. Later errors are
// transient unless Permanent reports otherwise.
//
// # Parts
//
//	Bus ──▶ journal      the director's decisions
//	    ──▶ leadership   which director leads
//	    ──▶ checkouts    checkouts that travel
//	    ──▶ Reports      the workers' reports
//	Bus, Client ──▶ link  signing in, timeouts, the errors of NATS
//
// The director, the worker and the demo import it. Other adapters do not.
package bus
