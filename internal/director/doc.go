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
//     See term.
//   - A refused or lost append ends the session. The machine is then discarded and rebuilt from the journal.
//
// # Failure policy
//
// A missing prerequisite at boot ends Run. The error has one line for each, with advice. If one fails later, Run goes
// on: the bus reconnects, or is reopened if it or its disk has failed, effects are retried, and GitHub cools down.
//
// # Files
//
// leading waits for the lease and stands by. session runs all parts. durable and recorder follow durable records.
// executors lists the executor of each effect. By topic: intake (issues), commentpoll (people), workers (heartbeats,
// hellos, containers), attempt (claim to stop), reports, operator (the socket). healing handles a failed bus or
// journal. open creates the adapters.
//
// # Imports
//
// The package imports all others: fsm, recovery and agent, the adapters (bus, container, github, workspace), config,
// audit and budget. Only cmd/director and the demo import it.
package director
