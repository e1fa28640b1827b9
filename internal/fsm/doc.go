// Package fsm is the director's core: a deterministic state machine over claimed issues, and the driver that makes it
// durable.
//
//	event ──▶ Machine.Step ──▶ facts ──▶ Machine.Apply ──▶ hard state
//	                      └──▶ effects (held by the Driver until the facts are in the journal)
//
// # Invariants
//
//   - Only Apply changes hard state. It never reads policy or configuration, so a replay never repeats a decision.
//   - An effect leaves the Driver only after every fact decided before it is durable.
//   - At most one attempt of a task can have an effect. The next one begins only after the last is
//     confirmed gone or fenced.
//   - Every verdict charges the tally of its claim, by cause.
//   - Words in the journal (kinds of facts, triggers, states) never change. Journals of older versions stay readable.
//
// # Clock
//
// Event.At is the only clock. The machine clamps it, so time never goes back, not even behind the last journaled
// record. Deadlines are state. A shell needs one timer, set to NextDeadline.
//
// # Concurrency
//
// Nothing here locks. One goroutine of the shell owns the Driver and its Machine. The shell may coalesce heartbeats
// (WorkersSeen), but it must offer them before any event that makes a deadline due. At most one append is in flight,
// and at most one durable effect of each task. At shutdown the machine stops dispatching tasks and handing
// out durable effects. The next process takes over running workers and the outbox.
//
// # Failure policy
//
// An event without a meaning in a task's state is ignored. A refused append stops the Driver. It hands out nothing
// after that, and the shell reloads the state from the journal.
//
// # Hard and soft state
//
// Facts build the hard state (hardState, Task), which a snapshot holds. Heartbeats, progress and the record of emitted
// effects are soft state, which is lost with the process. Booted therefore gives every worker twice the heartbeat TTL
// to be seen again, and emits outstanding effects again.
//
// # Parts
//
// Machine embeds attempts, attempts embeds recorder, recorder embeds agenda, and agenda embeds memory. A part can
// call only itself and the parts below it, which the compiler enforces. Facts change only the memory and the agenda.
//
// # Files
//
// The files are in order of dependency. Nearly every call and type refers to the same file or one further down.
//
//	driver.go     durable decisions
//	machine.go    a step, and the machine's parts
//	outbox.go     failed, retried and overtaken effects
//	rebuild.go    a state without its journal
//	liveness.go   heartbeats (deadlinePassed), hello, the runtime's list
//	intake.go     changes on GitHub, people's answers
//	command.go    commands from people and the operator
//	waiting.go    explanations of waits
//	review.go     delivered work in review
//	ending.go     the end of an attempt, or its fencing
//	delivery.go   deliveries and their outcomes
//	claim.go      claims won, lost (claimChecked), withdrawn or stale
//	attempt.go    the start and stop of an attempt
//	placement.go  waits for room in the cluster
//	verdict.go    verdicts on failures, budgets, fix rounds
//	cooldown.go   closed resources, limits stated by workers (limitStated)
//	breaker.go    incidents, in which many tasks fail alike
//	schedule.go   the choice of the next task (nextReady)
//	recorder.go   the step from decisions to facts and effects
//	apply.go      the effect of each fact on the memory
//	memory.go     the hard state and its indexes
//	queue.go      tasks that are due or ready
//	journal.go    encoding and decoding of records
//	fact.go, event.go, effect.go, settings.go, task.go, state.go
//
// # Imports
//
// The package is pure. It does not do I/O, start goroutines, log, or use channels, a clock or randomness. The iteration
// order of a map never shows. It imports recovery and its policy, plainjson, and the packages of the
// standard library that purity_test.go lists. docs/specs/orchestration-fsm.md is generated from the tables in
// state.go.
package fsm
