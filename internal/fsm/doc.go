// Package fsm is the director's core: a deterministic state machine over claimed issues, and the driver that makes it
// durable.
//
//	event ──▶ Machine.Step ──▶ facts ──▶ Machine.Apply ──▶ hard state
//	                      └──▶ effects (held by the Driver until the facts are in the journal)
//
// # Invariants
//
//   - Apply is the only thing that changes hard state, and reads nothing but the fact: replay never rewrites history.
//   - An effect leaves the Driver only after every fact that was decided before it is durable.
//   - At most one attempt of a task can have a container: the next one begins only after the last is confirmed gone.
//   - Every dispatch charges the tally of its claim, by cause.
//
// # Clock
//
// Event.At is the only clock. It is clamped so that it never goes back, not even behind the last journaled record.
// Deadlines are state; NextDeadline is the one timer that a shell needs.
//
// # Failure policy
//
// An event that makes no sense in a task's state changes nothing. A journal that refuses an append ends the machine:
// the Driver hands out nothing more, the shell reloads.
//
// # Hard and soft state
//
// Facts build the hard state (Task). Heartbeats, progress and what was emitted by this process are soft: they are lost
// with it, and Booted gives every worker twice the heartbeat TTL to be heard again.
//
// The package is pure: no I/O, goroutine, channel, clock, randomness or logging. The tables of states and transitions
// are in state.go, and docs/specs/orchestration-fsm.md is generated from them.
package fsm
