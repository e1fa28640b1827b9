// Package server is the NATS server with JetStream that the director runs itself, unless agent_bus.url names
// another one.
//
//	worker ──tcp──▶ relay ──▶ in-process connection ──▶ NATS ──▶ account WORKERS
//	director ─────────────────in-process connection ──▶ NATS ──▶ accounts WORKERS, REPORTS, DIRECTOR, SYS
//
// # Accounts
//
// Package keys describes them. Every stream lives in an account that no worker is in, and the journal in one
// that nobody but the director is in. A publisher may put any subject into a message's reply field, and a
// stream sends its acknowledgement there: were the journal within reach, a worker, or a person, could append to
// it. The server knows the accounts from claims in its folder; those of WORKERS are pushed by the director.
//
// # Listening
//
// NATS itself listens nowhere (DontListen): it can listen on one host or on all of them, and all is not
// acceptable. The relay listens on each host and copies every connection to the server's in-process connection.
// So all hosts are alike, a taken port is our own error with its own advice, and without any host the server
// runs without a socket. On every host but loopback it speaks TLS. It bounds connections and bytes; for another
// server it can do so, too (Relay).
//
// # Invariants
//
//   - Nobody signs in without a credential that was signed with the keys. There is no password.
//   - The port does not change after the first start: running workers know no other.
//
// # Failure policy
//
// Errors at the start are permanent and say what to do next. One process at a time may use the folder: the lock on
// director.data_dir, which holds the folder, makes sure of it.
//
// # Imports
//
// It imports packages keys, wire and safefile, but not package bus, whose tests run on it. Only the director's
// shell, the demo and tests import it.
package server
