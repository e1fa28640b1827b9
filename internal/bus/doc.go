// Package bus is the agent bus on NATS: the director's side (Bus) and the worker's side (Client). It carries what package
// wire describes, keeps the director's journal, and issues the credentials of workers.
//
// # Topology
//
//	                 account BUS                                     account DIRECTOR
//	workers ──┐   worker.*.error|result ─▶ RETAKE_REPORTS           journal ─▶ RETAKE_JOURNAL
//	          ├─▶ worker.*.hello|heartbeat|progress (core)          object store RETAKE_SNAPSHOTS
//	operator ─┘   dead.<cause> ─▶ RETAKE_DEAD
//	              control.<id> (core, director → worker)
//	              budget.* (NATS service; the reply subject proves who asks)
//
// On the embedded server the journal lives in an account of its own. A publisher may put any subject into a message's
// reply field, and the server sends its acknowledgement there: were the journal in reach, a worker could append to it.
// On a server that we join there is one account; keeping strangers out is then the business of that server's operator.
//
// # Listening
//
// The embedded server listens nowhere itself (DontListen): it can listen on one host only, or on all of them, and all is
// not acceptable. The bus listens on each host with net.Listen and hands every connection to the server's in-process
// door, byte for byte (relay.go). So all hosts are alike, a taken port is our own error with its own advice, and with no
// host at all the same server runs without any socket.
//
// # Invariants
//
//   - An append succeeds only behind the sequence that the caller expects: two directors never both write. An append that
//     timed out is read back by its batch id before anything is concluded; ErrUnsure is returned only if that fails too.
//   - A journal with a hole is never replayed as if it were whole: ErrJournalGap.
//   - A report is acknowledged by the caller, never by this package, except when it cannot be read: then it is in the dead
//     letters first (or over their rate, counted).
//   - The subject beats the payload.
//
// # Clock
//
// Wall time stamps envelopes and Report.Received; it decides nothing. Timeouts and backoff use the monotonic clock.
//
// # Failure policy
//
// A server that goes away is waited for, for ever, with jittered backoff; consumers are durable and found again by name,
// so that none pile up. Errors at Open are permanent and say what to do next. Later errors are transient unless
// Permanent says otherwise.
package bus
