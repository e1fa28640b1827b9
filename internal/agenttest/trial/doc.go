// Package trial runs an agent CLI against the fake provider, the way a worker runs it for an issue, and returns the
// classification of the run. The worker is the real program, run without a director (flag --report). The package turns
// the worker's report into evidence and classifies it as the director would.
//
// Invariants: each run has a separate HOME and checkout, and inherits only PATH and the language from the caller's
// environment. All processes that the agent started have ended when Run returns.
//
// Clock: Limit limits the wall time of each run. Failure policy: every behaviour of an agent is a result, never an
// error.
package trial
