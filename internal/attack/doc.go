// Package attack attacks a running director, and reports for each attack whether it was held. A hostile agent is any
// program that runs as a stage, or that holds a worker's bus credential, which a stage must not have.
//
//	make attacks    all of it, with figures; exit 1 if one attack succeeded
//	go test         the quick ones, without containers if no engine answers
//
// The director is a separate process with a measurable memory, on the stand-in GitHub, with real git and
// a real bus. The workers are of two kinds. The suite plays some of them, so it has their plans and can act as a
// thief of a credential. The others are real workers in containers, with the program in directory agent as their agent.
//
// Each attack is one row of a table: the actions of the hostile agent, the defence that must hold, and the result
// before the director had that defence. During every attack on the bus an honest worker runs. Its welcome, its
// messages and its delivery must be as usual.
//
// # Invariants
//
//   - A row fails unless the attack was really made: a missing condition is an error, not a success.
//   - A director that was hurt is replaced before the next row.
//   - The remains of an attack on the machine (containers, images, mounts, files) are removed with its world.
//
// # Imports
//
// It has only tests, except for the agent, a separate program that does not import our packages.
package attack
