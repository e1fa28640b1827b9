// Package keys creates, stores and uses the keys of an agent bus. These are NATS's operator, accounts and users,
// and the certificate of its listeners. Embedded and joined servers use the same keys.
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
//   - Accounts are isolated, because no account imports or exports. A worker cannot address a stream or JetStream's
//     API. A person can write into one stream, but cannot reach another through a reply subject. Otherwise an
//     acknowledgement could be sent into the journal and stored there.
//   - A worker's user key is derived from its id and a secret, so that it can be revoked without being stored.
//   - A directory with keys is never overwritten, because streams belong to the public keys of the accounts.
//
// # Clock
//
// Claims contain wall time in whole seconds: when they were issued, when they expire, and before which issue
// time they are revoked.
//
// # Imports
//
// It imports packages wire and safefile, NATS's client, nkeys and jwt. The worker does not use it.
package keys
