// Package keys creates, stores and uses the keys of an agent bus (NATS operator, accounts and users) and the
// certificate of its listeners. An embedded server and a server that directors join use the same keys.
//
//	operator ─signs─▶ account SYS        of the server, where the director pushes claims and watches connections
//	         ─signs─▶ account DIRECTOR   journal and snapshots, for the director only
//	         ─signs─▶ account REPORTS    reports and dead letters, for a person and the director
//	         ─signs─▶ account WORKERS    core messages only, for each worker, and for the director as gatekeeper
//
// # The directory
//
//	director/   operator and account seeds, and the certificate authority, for the director
//	server/     claims of the operator and three accounts, a certificate and nats.conf, for the server
//
// The seeds give full control of the bus: anyone who can read director/ can act as the director. Directories have mode
// 0700, files 0600.
//
// # Invariants
//
//   - Accounts are isolated, because none of them imports or exports subjects. A worker cannot address a stream or
//     JetStream's API. A person can write to one stream, but not to the journal: its account is separate, so an
//     acknowledgement cannot be sent there through a reply subject.
//   - A worker's user key is derived from its id and a secret, so the director can revoke it without storing it.
//   - A directory with keys is never overwritten, because streams belong to the public keys of the accounts.
//
// # Clock
//
// Claims contain wall-clock times in whole seconds: their issue time, their expiry, and the issue time up to which a
// user's credentials are revoked.
//
// # Imports
//
// It imports packages wire and safefile, nkeys and jwt. The worker imports it through package bus, but does not use it.
package keys
