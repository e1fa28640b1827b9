// Package fsm is the director's core: a deterministic state machine over claimed issues, and the driver that makes it
// durable.
//
//	event ──▶ Machine.Step ──▶ facts ──▶ Machine.Apply ──▶ hard state
//	                      └──▶ effects (held by the Driver until the facts are in the journal)
//
// # Invariants
//
//   - Only Apply changes hard state. It never reads the policy or the configuration, so a replay does not decide again.
//   - The Driver releases an effect only after all facts decided before it are durable.
//   - At any time, only messages from one attempt of a task count. The next attempt begins only after the previous one
//     is confirmed gone or fenced.
//   - Every verdict on a failure updates the tally of the claim.
//   - Words in the journal (kinds of facts, triggers, states) never change. Journals of older versions stay readable.
//
// # Clock
//
// Event.At is the only clock. If it is earlier than the last event or the last record of the journal, the machine uses
// that later time instead, so time never goes backwards. The machine stores all deadlines. The shell therefore needs
// only one timer, which it sets to NextDeadline.
//
// # Concurrency
//
// The package does not use locks. One goroutine of the shell owns the Driver and its Machine. The shell may coalesce
// heartbeats (WorkersSeen), but it must offer them before any event that makes a deadline due. At most one append is in
// flight, and at most one durable effect of each task. At shutdown the machine stops dispatching tasks and emitting
// durable effects. The next process takes over the running workers and the outbox.
//
// # Failure policy
//
// The machine ignores an event that cannot happen in the task's state. If an append fails, the shell stops the Driver
// and reloads the state from the journal. A stopped Driver does not release effects.
//
// # Hard and soft state
//
// Facts build the hard state (hardState, Task), which a snapshot holds. Heartbeats, progress and the record of emitted
// effects are soft state, which is lost with the process. Booted therefore gives every worker twice the heartbeat TTL
// to send a sign of life, and emits unfinished effects again.
//
// # Parts
//
// Machine embeds attempts, attempts embeds recorder, recorder embeds agenda, and agenda embeds memory. A part can call
// only itself and the parts below it, which the compiler enforces. Facts change only the memory and the agenda.
//
// # Files
//
// The list is in dependency order: nearly all code uses only its own file and the files below it.
//
//	driver.go     durable decisions
//	machine.go    a step, and the machine's parts
//	outbox.go     failed, retried and overtaken effects
//	rebuild.go    the state after the loss of the journal
//	liveness.go   heartbeats (deadlinePassed), hello, the runtime's list
//	intake.go     changes on GitHub, people's answers
//	command.go    commands from people and the operator
//	waiting.go    explanations of waits
//	review.go     delivered work in review
//	ending.go     the end of an attempt, or its fencing
//	delivery.go   deliveries and their outcomes
//	claim.go      claims won, lost (claimChecked), withdrawn or stale
//	attempt.go    the start and stop of an attempt
//	placement.go  waits for capacity in the cluster
//	verdict.go    verdicts on failures, budgets, fix rounds
//	cooldown.go   closed resources, limits stated by workers (limitStated)
//	breaker.go    incidents, in which many tasks fail alike
//	schedule.go   the choice of the next task (nextReady)
//	recorder.go   the facts and effects of a decision
//	apply.go      the effect of each fact on the memory
//	memory.go     the hard state and its indexes
//	queue.go      tasks that are due or ready
//	journal.go    encoding and decoding of records
//	fact.go, event.go, effect.go, settings.go, task.go, state.go
//
// # Imports
//
// The package is pure. It does not perform I/O, start goroutines, log, or use channels, a clock or randomness. Its
// results do not depend on map iteration order. It imports recovery and its policy, plainjson, and the standard library
// packages listed in purity_test.go. The tables in docs/specs/orchestration-fsm.md are generated from this package.
package fsm
