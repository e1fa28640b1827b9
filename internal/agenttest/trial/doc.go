// Package trial runs an agent CLI against the stand-in for providers as a worker runs it for an issue, and says
// what was understood. The worker is the real program, without a director (its flag --report); its report
// becomes evidence and is classified as the director does it.
//
// Invariants: an agent has a HOME and a checkout of its own for each run, and no variable of whoever starts it
// but PATH and the language. What it starts has ended when Run returns.
//
// Clock: wall time; each run is bounded by Limit. Failure policy: what an agent does is a result, never an error.
package trial
