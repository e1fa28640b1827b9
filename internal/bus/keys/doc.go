// Package keys creates, stores and uses the keys of NATS's operator, accounts and users for an agent bus, and the
// certificate of its listeners. An embedded server and a server that directors join use the same keys.
//
//	operator ─signs─▶ account SYS        of the server, where the director pushes claims and watches connections
//	         ─signs─▶ account DIRECTOR   journal, snapshots (the director alone)
//	         ─signs─▶ account REPORTS    reports, dead letters (the director, a person)
//	         ─signs─▶ account WORKERS    core messages only (each worker, and the director as gatekeeper)
//
// # The directory
//
//	director/   for the director, the seeds of the operator and of the accounts, the certificate authority
//	server/     for the server, the claims of the operator and of three accounts, its certificate, nats.conf
//
// The seeds give full control of the bus: anyone who can read director/ can act as the director. Directories
// have mode 0700, files 0600.
//
// # Invariants
//
//   - Accounts are isolated, because none of them imports or exports subjects. A worker cannot address a stream or
//     JetStream's API. A person can write into one stream, but not into the journal: its account is separate, so an
//     acknowledgement cannot be sent there through a reply subject.
//   - A worker's user key is derived from its id and a secret, so that the director can revoke it without storing it.
//   - A directory with keys is never overwritten, because streams belong to the public keys of the accounts.
//
// # Clock
//
// Claims contain wall-clock times in whole seconds: their issue time, their expiry, and the issue time up to which a
// user's credentials are revoked.
//
// # Imports
//
// It imports packages wire and safefile, NATS's client, nkeys and jwt. The worker does not use it.
package keys
