// Package trial runs an agent CLI against the fake provider, the way a worker runs it for an issue, and returns how the
// run is classified. The worker is the real program, run without a director (flag --report). Its report is turned into
// evidence and classified as the director would.
//
// Invariants: each run has a separate HOME and checkout, and inherits only PATH and the language from the caller's
// environment. All processes that the agent started have ended when Run returns.
//
// Clock: Limit limits the wall time of each run. Failure policy: every behaviour of an agent is a result, never an
// error.
package trial
