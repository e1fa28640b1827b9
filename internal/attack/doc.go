// Package attack attacks a running director for real and says of each attack whether it was held. A hostile
// agent is anything that runs as a stage, or holds what a stage must not have: a worker's bus credential.
//
//	make attacks    all of it, with figures; exit 1 if one attack got through
//	go test         the quick ones, without containers if no engine answers
//
// The director is a process of its own (so that its memory can be measured) on the stand-in GitHub, with real
// git and a real bus. Its workers are of one of two kinds: played ones, whose plans the suite holds, so that it
// can do with a credential what a thief would; and real ones in containers, whose agent is the program in
// folder agent.
//
// Each attack is one row of a table: what the hostile agent does, what must hold, and what happened when it was
// run before the director defended itself against it. Beside every attack on the bus an honest worker is at
// work: it must be welcomed, be heard, and get its work delivered as if nothing was the matter.
//
// # Invariants
//
//   - A row fails unless the attack was really made: what it needs and does not get is an error, not a success.
//   - A director that was hurt is replaced before the next row.
//   - What an attack left on the machine (containers, images, mounts, files) is removed with its world.
//
// # Imports
//
// Tests only, but for the agent, which is a program of its own and imports nothing of ours.
package attack
