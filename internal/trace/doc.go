// Package trace makes the spans of tasks out of the facts of the journal: one trace for each task, from the
// queue to its end.
//
//	task
//	├─ queued · claim · backoff · parked · delivery · review · blocked    one for each time that the task is in that state
//	│  └─ effect …                                                        what was to be done then, with its tries
//	├─ attempt
//	│  ├─ start · run · silent · stop
//	│  │  └─ effect …
//	│  ├─ stage …                                                         what the worker's report says of its stages
//	│  └─ verdict                                                         what was decided about it
//	└─ verdict                                                            about what was no attempt's
//
// # Invariants
//
//   - It is pure: facts in, spans out. A Book folds the journal and hands out each span once it has ended.
//   - Ids are made of the fleet, the nonce of the claim, ids of attempts and effects, and the times of facts. Who reads the same journal again, after a
//     restart or in the place of another, makes the same spans with the same ids.
//   - Records may be missing. A span whose beginning is not known is not made up, but a task's own: it begins where it was met, and says so.
//
// # Clock
//
// The times of records are the director's; those of stages are the worker's, and kept within their attempt.
//
// # Imports
//
// fsm, recovery and bus/wire. The exporter is package director's.
package trace
