// Package testbed provides the environment for a director that is demonstrated, attacked or measured from outside. It
// has programs that can be killed and restarted, workers in containers or plain processes, a stand-in for GitHub, and a
// NATS server to join. Package demo and package chaos add their scenarios and faults.
//
//	Process  director, NATS            started, signalled, killed
//	Host     Docker, Processes         workers seen without the director, listed, disturbed, removed
//	GitHub   githubtest.Server         with a repository, served on loopback
//
// # Invariants
//
//   - Everything belongs to a fleet with a unique name for the run. Clear removes everything, and its error lists the
//     objects that remain.
//   - No process outlives this one, and a director gets only the token of the GitHub stand-in.
package testbed
