// Package keys makes, keeps and uses the keys of an agent bus: NATS's operator, accounts and users, and the
// certificate of its listeners. It is the same for the embedded server and for one that was joined.
//
//	operator ─signs─▶ account SYS        the server's own: claims are pushed and connections watched here
//	         ─signs─▶ account DIRECTOR   journal, snapshots; users: the director, nobody else
//	         ─signs─▶ account REPORTS    reports, dead letters; users: the director, a person
//	         ─signs─▶ account WORKERS    core messages only; users: each worker, and the director as gatekeeper
//
// # The folder
//
//	director/   what the director needs: the seeds of the operator and of the accounts, the certificate authority
//	server/     what the server needs: the operator's and three accounts' claims, its certificate, nats.conf
//
// The seeds are the whole power over the bus; whoever reads director/ is the director. Folders have mode 0700,
// files 0600.
//
// # Invariants
//
//   - Nothing crosses between accounts: none imports or exports. A worker can address neither a stream nor JetStream's API, and a
//     person, who can write into a stream, no other one by a reply subject: an acknowledgement goes there, and a journal would keep it.
//   - A worker's user key follows from its id and a secret, so that it can be revoked without a memory of it.
//   - A folder that has keys is never written over: streams belong to the accounts' public keys.
//
// # Clock
//
// Wall time, in whole seconds, stands in the claims: when they were issued, when they expire, from when back
// they are revoked.
//
// # Imports
//
// It imports packages wire and safefile, NATS's client, nkeys and jwt. The worker does not use it.
package keys
