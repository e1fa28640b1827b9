// Package fsm is the director's core: a deterministic state machine over claimed issues, and the driver that makes it
// durable.
//
//	event ──▶ Machine.Step ──▶ facts ──▶ Machine.Apply ──▶ hard state
//	                      └──▶ effects (held by the Driver until the facts are in the journal)
//
// # Invariants
//
//   - Apply alone changes hard state, and reads no policy or configuration: replay never decides anew.
//   - An effect leaves the Driver only after every fact that was decided before it is durable.
//   - At most one attempt of a task can do anything that counts: the next one begins only after the last is
//     confirmed gone, or fenced.
//   - Every verdict charges the tally of its claim, by cause.
//   - Words in the journal (kinds of facts, triggers, states) never change; what older versions wrote is still read.
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
// Facts build the hard state, which a snapshot holds (hardState, Task). Heartbeats, progress and what this
// process emitted are soft: they are lost with it, and Booted gives every worker twice the heartbeat TTL to be
// seen again.
//
// # Parts
//
// Machine embeds attempts, attempts embeds recorder, recorder embeds agenda, and agenda embeds memory. A part calls
// itself and the parts below it; the compiler keeps it so. Facts change the memory and the agenda only.
//
// # Files
//
// In this order nearly every call and type points to the same file or further down:
//
//	driver.go     what makes decisions durable
//	machine.go    a step, and the machine's parts
//	outbox.go     the outcomes of effects: failed, tried again, overtaken
//	rebuild.go    a state without its journal
//	liveness.go   whether a worker is there: heartbeats (deadlinePassed), hello, the runtime's list
//	intake.go     what changed on GitHub, what people answered
//	command.go    what people and the operator command; waiting.go: what a task waits for
//	review.go     what becomes of delivered work
//	ending.go     what an attempt's end means, and when it is fenced because nobody can confirm its end
//	delivery.go   what follows from a delivery
//	claim.go      whether a claim is won, lost (claimChecked), withdrawn or stale
//	attempt.go    how an attempt begins, and when it is stopped
//	placement.go  what waits for room, and for how long
//	verdict.go    what a failure leads to, budgets, and who mends what a clean container refused
//	cooldown.go   which resources are closed, for how long a worker's word counts (limitStated)
//	breaker.go    many tasks that fail alike
//	schedule.go   which task goes next (nextReady)
//	recorder.go   how a decision becomes facts and effects
//	apply.go      how a fact changes the memory; memory.go: what it holds; queue.go: what is due
//	journal.go    how records are written and read
//	fact.go, event.go, effect.go, settings.go, task.go, state.go
//
// # Imports
//
// The package is pure: no I/O, goroutine, channel, clock, randomness or logging, and no iteration over maps
// that could show. It imports recovery and its policy, plainjson, and of the standard library only what
// purity_test.go lists. docs/specs/orchestration-fsm.md
// is generated from the tables in state.go.
package fsm
