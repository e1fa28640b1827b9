// Package server is the NATS server with JetStream that the director embeds, unless agent_bus.url names another server.
//
//	worker ──tcp──▶ relay ──▶ in-process connection ──▶ NATS ──▶ account WORKERS
//	director ─────────────────in-process connection ──▶ NATS ──▶ accounts WORKERS, REPORTS, DIRECTOR, SYS
//
// # Accounts
//
// Package keys describes the accounts. The workers' account cannot have streams, and only the director can use the
// journal's account. This separation is necessary because a publisher may put any subject into a message's reply field,
// and a stream sends its acknowledgement there. If the journal were in the same account, a worker or a person could
// append to it that way. The server reads the accounts from claims in its directory, except that the director pushes
// the claims of WORKERS.
//
// # Listening
//
// NATS itself does not listen (DontListen), because it can listen only on one host or on all hosts. Instead, a relay
// listens on each host, and forwards every connection to an in-process connection of the server. All hosts therefore
// behave the same, and the error for a port in use can include advice. Without hosts, the server runs without a socket.
// The relay speaks TLS on every address except loopback. It limits the number of connections and their data rate. Relay
// protects another server in the same way.
//
// # Invariants
//
//   - Every client needs a credential signed with the keys. There is no password.
//   - The port does not change after the first start, because running workers keep using it.
//
// # Failure policy
//
// Errors from Start are permanent and state the next step. Only one process at a time may use the directory, which the
// lock on director.data_dir enforces.
//
// # Imports
//
// It imports packages keys, wire, connlimit and safefile. It must not import package bus, because the tests of bus use
// this package. Only the director's shell, the demo and tests import it.
package server
