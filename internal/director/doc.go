// Package director runs the state machine of package fsm. It feeds events to the machine, makes the machine's
// decisions durable, and carries out the effects.
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
//   - On a shared bus, this process decides and starts effects only while it holds the lease.
//     See lead.Term.
//   - A refused or lost append ends the session. The next session rebuilds the machine from the journal.
//
// # Failure policy
//
// Run returns an error if a prerequisite is missing at boot. The error has one line for each missing prerequisite,
// with advice. If a prerequisite fails later, Run continues: it reconnects to the bus or reopens it, retries effects,
// and pauses its requests to GitHub.
//
// # Files
//
// director.go holds Options and Run. open.go creates the adapters, and leading.go connects the parts that lead or stand
// by. session.go and sessionrun.go create and run the parts of a session. executors.go lists the executor of each
// effect. serving.go answers people, and metrics.go maintains the metrics. Each part is a package in this directory:
//
//   - loop, inforce, reload: the owner of the machine, and the configuration in force
//   - lead, restore, upkeep, disk: the lease, the state from the journal, snapshots, and the disk
//   - intake, effects, workers, reports, record: issues, the effects, workers, their reports, and the audit
//   - serve, view, telemetry, operator: the answers to people, and the protocol of the operator's socket
//   - engine, network, preflight, offline: containers, the workers' network, and commands without a director
//
// # Imports
//
// The package imports most other packages: fsm, recovery and agent, the adapters (bus, container, github, workspace),
// config, audit and budget. Only cmd/director and the tests of package attack import it.
package director
