// Package director is the shell around fsm.Driver: it hands the machine what happens, makes its decisions durable, and
// carries out its effects.
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
//   - One goroutine, the owner, touches the machine: see package loop, which also keeps effects behind their facts.
//   - On a bus that others may join, nothing is decided and no effect begins but within the lease: see term.
//   - A journal that refuses or loses an append ends the session: the machine is discarded and read again.
//
// # Failure policy
//
// What is missing at boot ends Run with one line for each thing, saying what to do. The same later never does: the bus
// reconnects, or is opened again if it or its disk has failed, effects are tried again, GitHub cools down.
//
// # Files
//
// leading waits for the lease, and stands by meanwhile; session runs everything; durable and recorder follow
// what became durable; executors names what carries out each effect. By topic: intake (issues), comments
// (people), workers (heartbeats, hellos, containers), attempt (claim to stop), reports, operator (the socket),
// traces (what telemetry exports). diskguard and healing: what becomes of a disk and a journal that fail. open
// makes the adapters.
//
// # Imports
//
// It joins everything: fsm, recovery and agent, the adapters (bus, container, github, workspace),
// config, audit and budget. Only cmd/director
// and the demo import it.
package director
