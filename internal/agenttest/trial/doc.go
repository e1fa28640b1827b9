// Package trial runs an agent CLI against the stand-in for providers as a worker runs it for an issue, and reports
// the worker's understanding. The worker is the real program, without a director (its flag --report); its report
// becomes evidence and is classified as the director does it.
//
// Invariants: each run has a separate HOME and checkout, and inherits only PATH and the language from the caller's
// environment. All processes that the agent started have ended when Run returns.
//
// Clock: wall time; each run is bounded by Limit. Failure policy: every behaviour of an agent is a result, never an
// error.
package trial
