// Package trace turns the facts of the journal into one trace per task, from queueing to the end of the task.
//
//	task
//	├─ queued · claim · backoff · parked · delivery · review · blocked    one for each visit to the state
//	│  └─ effect …                                                        an effect in that state, with its tries
//	├─ attempt
//	│  ├─ start · run · silent · stop
//	│  │  └─ effect …
//	│  ├─ stage …                                                         from the worker's report
//	│  └─ verdict                                                         the decision about the attempt
//	└─ verdict                                                            the decision on a failure outside attempts
//
// # Invariants
//
//   - The package is pure. A Book applies the journal's facts and emits each span once it has ended.
//   - Ids are derived from the fleet, the nonce of the claim, ids of attempts and effects, and the times of facts.
//     Reading the same journal again, after a restart or on another machine, produces the same spans with the same ids.
//   - The beginning of a journal may be missing. The spans of a task and of an attempt that began before the first
//     record have the attribute retake.incomplete, and start at the earliest known time.
//
// # Clock
//
// Records carry the director's time. Stages carry the worker's time, clamped to their attempt.
//
// # Imports
//
// The package imports fsm, projection, recovery and bus/wire. The exporter is in internal/director.
package trace
