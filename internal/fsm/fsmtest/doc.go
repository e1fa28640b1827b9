// Package fsmtest searches for defects in the director's core, with a simulator, an explorer and mutants.
//
// The simulator runs the production driver and the real policies in simulated worlds. A world has workers, the bus, a
// container runtime, GitHub, people, clocks, the journal, and directors that crash or are replaced. Random choices
// determine everything in it, so its seed reproduces it. If a world violates an invariant, the simulator shortens it
// and prints a transcript.
//
// The explorer searches small worlds completely, trying every order of events. It identifies a state by a hash of the
// data that affects decisions. Times enter the hash relative to now, and swapping two issues does not change the hash.
//
// Mutants are deliberate bugs in the core. The tests check that the invariants catch each of them.
//
//	make sim SEED=… STEPS=…                                        one long run
//	make sim SEED=… WORLD=…                                        replay of one of its worlds
//	go test ./internal/fsm/fsmtest -run 'Sim|Explore|Mutants' -v   what CI runs
//
// # Assumptions about the world
//
// GitHub, the runtime and the stream of reports keep confirmed data. The stream does not accept reports from a worker
// that was shut out. The runtime confirms that a container is gone only after it has ended. A worker on a disconnected
// host may run longer, but its messages do not arrive. If the answer to an append is lost, the shell searches the
// journal for the batch. The shell polls each whole repository when it starts, until GitHub answers, and ten minutes
// after a refused claim. It regularly reads the list of containers and every pull request. It reads comments one
// repository at a time, from the machine's cursor. After a claim has ended, a late request from a replaced director
// does not change labels. It also does not change labels that its successor has set for a newer question or a later
// attempt.
//
// # Imports
//
// It imports fsm, and recovery with its packages, but not the director or an adapter, because it drives only the core.
//
// # Failure policy
//
// A violation ends the run. Shortening a world has a time limit.
package fsmtest
