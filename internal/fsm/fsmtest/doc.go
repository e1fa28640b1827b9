// Package fsmtest tries to break the director's core.
//
// The simulator runs worlds around the production driver, with the real policies. A world has workers, the bus, a
// container runtime, GitHub, people, clocks, the journal, and directors that crash or are replaced. A world is a
// function of its choices, so a seed repeats it. A world that violates an invariant is shrunk and printed as a
// transcript.
//
// The explorer searches small worlds completely, with every order of possible events. A hash of everything that affects
// decisions identifies a state. Times are relative to now, and the names of two issues are interchangeable.
//
// Mutants are planted bugs that show whether the invariants catch them.
//
//	make sim SEED=… STEPS=…                                        one long run
//	make sim SEED=… WORLD=…                                        one world of it again
//	go test ./internal/fsm/fsmtest -run 'Sim|Explore|Mutants' -v   what CI runs
//
// # Assumptions about the world
//
// GitHub, the runtime and the stream of reports keep confirmed data. The stream does not accept reports from a worker
// that was shut out. A container is confirmed gone only after its end. A worker on a disconnected host may run longer,
// but its messages do not arrive. The shell reads an append back if its answer was lost. It polls each whole repository
// at its start, until GitHub answers, and ten minutes after a refusal. It regularly reads the list of containers and
// every pull request. It reads comments sequentially from the machine's cursor. A late claim or delivery of a replaced
// director does not change labels after the claim's end. It also does not change labels that its successor has set for
// a newer question or a later attempt.
//
// # Imports
//
// It imports fsm and recovery with its packages, but not the director or an adapter, because it drives only the core.
//
// # Failure policy
//
// A violation ends the run. Shrinking has a time limit. The transcript keeps the result.
package fsmtest
