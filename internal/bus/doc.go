// Package bus connects the director (Bus) and the workers (Client) to the agent bus, a NATS server. It carries the
// messages of package wire, keeps the director's journal and issues the workers' credentials. The embedded server is in
// the separate package bus/server, because the worker links this package and must not link a server.
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
// On embedded and joined servers, every client signs in with a credential signed by the director (package keys). The
// director issues a worker's credential when it starts the worker, and revokes it when the worker ends. The credential
// also has an expiry date. Revocations are part of the claims of the workers' account. The director pushes these claims
// to the server when it opens the bus, at each reconnect and at each revocation.
//
// # Invariants
//
//   - Reports are acknowledged by the caller. This package acknowledges only unreadable reports, after it has stored
//     them as dead letters (or only counted them, if a limit on dead letters is reached).
//   - If the subject and the payload disagree about the sender, the subject takes precedence.
//   - A revocation lasts until the credential would have expired. It is written to disk before any request to
//     the server.
//   - The director does not read messages from a worker that is not admitted. A quota limits the messages of each
//     worker (see Offence). One worker's messages do not delay other workers, because each has separate subscriptions
//     and a separate backlog for each type of message. A silent worker does not use a goroutine.
//   - Workers cannot choose message ids or where answers are sent. The director generates the message ids, and reply
//     subjects must be below the worker's inbox.
//   - Only the director is in the journal's account, and reply subjects do not reach beyond their account.
//
// # Clock
//
// The times in envelopes and in Report.Received are wall-clock times, and decisions do not depend on them. Timeouts and
// backoff use the monotonic clock.
//
// # Failure policy
//
// After losing the connection, both sides keep trying to reconnect, with jittered backoff. Durable consumers have fixed
// names, so restarts do not leave old ones behind. Errors from Open are permanent, and tell the user how to proceed.
// Later errors are transient unless Permanent reports otherwise.
//
// # Parts
//
//	Bus ──▶ journal      the director's decisions
//	    ──▶ leadership   which director leads
//	    ──▶ checkouts    travelling checkouts
//	    ──▶ Reports      the workers' reports
//	Bus, Client ──▶ link  signing in, timeouts, NATS errors
//
// The director, the worker and the demo import it. Other adapters do not.
package bus
