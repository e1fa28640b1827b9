// Package attack attacks a running director, and reports for each attack whether the defence held. A hostile agent is
// any program that runs as a stage, or that has a worker's credential for the bus, which a stage must not have.
//
//	make attacks    all attacks, with figures; exit 1 if an attack succeeded
//	go test         the quick attacks, without containers if no engine answers
//
// The attack in a new row must succeed against the last commit without its defence. Build the programs of that commit,
// and attack them:
//
//	go build -o DIR/ ./cmd/director ./cmd/worker && go test -c -o DIR/attack.test ./internal/attack
//	make attacks BASELINE=DIR ONLY=door
//
// The director is a separate process, so that its memory can be measured. It uses the stand-in for GitHub, real git and
// a real bus. The suite itself plays some of the workers, so it has their plans and can pose as an attacker with a
// stolen credential. The others are real workers in containers, with the program in the directory agent as their agent.
//
// Each attack is one row of a table. A row lists the actions of the hostile agent, the defence that must hold, and the
// outcome before the director had that defence. During every attack on the bus, an honest worker runs, and it must get
// its welcome, exchange its messages and deliver its work as usual.
//
// # Invariants
//
//   - A row fails unless the attack was actually carried out. So a missing precondition is an error instead of a
//     success.
//   - A damaged director is replaced before the next row.
//   - Anything an attack leaves on the machine (containers, images, mounts, files) is removed with its world.
//
// # Imports
//
// The package contains only tests. The agent is a separate program, which does not import other packages of this
// module.
package attack
