// Package director is the shell around fsm.Driver. It feeds events to the machine, makes the machine's decisions
// durable, and carries out the effects.
//
//	poll ─────┐                        ┌─▶ github
//	bus ──────┤  inputs   ┌────────┐   ├─▶ container
//	docker ───┼──────────▶│ owner  │───┤
//	outcomes ─┤           └───┬────┘   ├─▶ workspace
//	timer ────┘               ▼        └─▶ bus
//	                       journal
//
// # Invariants
//
//   - One goroutine, the owner, touches the machine. See package loop, which also holds effects back until their
//     facts are durable.
//   - On a bus that others may join, decisions are made and effects begin only while this process holds the lease.
//     See lead.Term.
//   - A refused or lost append ends the session. The machine is then discarded and rebuilt from the journal.
//
// # Failure policy
//
// A missing prerequisite at boot ends Run. The error has one line for each, with advice. If a prerequisite fails
// later, Run continues. The bus reconnects or reopens, effects are retried, and GitHub cools down.
//
// # Files
//
// director holds Options and Run. open creates the adapters, and leading wires the candidate for the leadership.
// session and sessionrun create and run the parts of a session. executors lists the executor of each effect. serving
// answers people, and metrics counts. Each part is a package in this directory:
//
//   - loop, inforce, reload: the owner of the machine, and the configuration in force
//   - lead, restore, upkeep, disk: the lease, the state from the journal, snapshots, and the disk
//   - intake, effects, workers, reports, record: issues, the effects, workers, their reports, and the audit
//   - serve, view, telemetry, operator: the answers to people, and the protocol of the operator's socket
//   - engine, network, preflight, offline: containers, the workers' network, and commands without a director
//
// # Imports
//
// The package imports all others: fsm, recovery and agent, the adapters (bus, container, github, workspace), config,
// audit and budget. Only cmd/director and the tests of package attack import it.
package director
