// Package fsmtest tries to break the director's core.
//
// The simulator lets worlds happen around the driver that production runs, with its real policies: workers,
// bus, container runtime, GitHub, people, clocks, the journal, and directors that crash or are replaced. A
// world is a function of its choices, so a seed repeats it; one that violates an invariant is shrunk and
// printed as a transcript.
//
// The explorer searches small worlds whole: every order in which things can happen. States are compared by a sum over
// all that decides, times relative to now, with the names of two issues exchanged if that makes them equal.
//
// The mutants are bugs that are planted to see whether the invariants catch them.
//
//	make sim SEED=… STEPS=…                                        one long run
//	make sim SEED=… WORLD=…                                        one world of it again
//	go test ./internal/fsm/fsmtest -run 'Sim|Explore|Mutants' -v   what CI runs
//
// # What the world takes for granted
//
// GitHub, the runtime and the stream of reports keep what they have confirmed. The stream takes no report of a
// worker that was shut out. A container is confirmed gone only when it is; a worker on a host that was cut off
// may go on after that, unheard. The shell reads an append back whose answer was lost, polls each whole
// repository at its start, until that is answered, and ten minutes after a refusal, and reads the list of
// containers regularly. It reads comments one look after the other, from where the machine's cursor stands, and
// looks at every pull request regularly. A claim or a delivery that is carried out late, for a director that
// was replaced, changes no label that its successor has set for a newer question or a later attempt, and none
// after the claim's end.
//
// # Imports
//
// It imports fsm and recovery with its packages, and neither the director nor an adapter: it drives the core alone.
//
// # Failure policy
//
// A violation ends the run. Shrinking is bounded by time; what it could not take away stays in the transcript.
package fsmtest
