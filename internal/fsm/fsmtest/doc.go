// Package fsmtest tries to break the director's core.
//
// The simulator lets worlds happen around the driver that production runs, with its real policies: workers,
// bus, container runtime, GitHub, people, clocks, the journal, and directors that crash or are replaced. A
// world is a function of its choices, so a seed repeats it; one that violates an invariant is shrunk and
// printed as a transcript.
//
// The explorer searches small worlds whole: every order in which things can happen. States are compared by a sum over
// everything that decides. Times are relative to now. Two issues may exchange their names.
//
// The mutants are bugs that are planted to see whether the invariants catch them.
//
//	make sim SEED=… STEPS=…                                        one long run
//	make sim SEED=… WORLD=…                                        one world of it again
//	go test ./internal/fsm/fsmtest -run 'Sim|Explore|Mutants' -v   what CI runs
//
// # What the world takes for granted
//
// GitHub, the runtime and the stream of reports keep what they have confirmed. The stream does not take reports of a
// worker that was shut out. A container is confirmed gone only after its end; a worker on a disconnected host may
// continue after that, unheard. The shell reads an append with a lost answer back. It polls each whole repository at
// its start, until GitHub answers, and ten minutes after a refusal, and reads the list of containers regularly. It
// reads comments sequentially from the machine's cursor, and reads every pull request regularly. A late claim or
// delivery of a replaced director does not change labels that its successor has set for a newer question or a later
// attempt, or labels after the claim's end.
//
// # Imports
//
// It imports fsm and recovery with its packages, and neither the director nor an adapter: it drives the core alone.
//
// # Failure policy
//
// A violation ends the run. Shrinking is bounded by time. The transcript keeps the rest.
package fsmtest
