// Package testbed provides the environment for demonstrating, attacking or measuring a director from outside. It has
// programs that can be killed and restarted, workers in containers or plain processes, a stand-in for GitHub, and a
// NATS server. Packages demo and chaos add their scenarios and faults.
//
//	Process  director, NATS            started, signalled, killed
//	Host     Docker, Processes         workers listed, disturbed and removed without the director
//	GitHub   githubtest.Server         with a repository, served on loopback
//
// # Invariants
//
//   - Everything belongs to a fleet with a name unique to the run. Clear removes everything, and its error lists the
//     objects that remain.
//   - No process outlives this one, and a director gets only the GitHub stand-in's token.
package testbed
