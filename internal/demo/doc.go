// Package demo, run by cmd/demo, shows the director at work on one machine. It has real workers, a real repository, a
// stand-in for GitHub, and thirteen failures with known outcomes.
//
//	this process ──▶ githubtest (issues, git, pages) ◀──┐
//	      │                                             │ HTTP
//	      ├──▶ director (a separate process, to be killed) ──▶ containers, or processes: worker + agent/
//	      │                                                          │ HTTP, resets
//	      └──▶ model (a stand-in for a provider) ◀───────────────────┘
//
// A small program (agent/) is the coding agent. On one issue it is a real loop of model and tools, with a fake provider
// that sometimes refuses requests (provider.go). On the other issues it is a script. Real programs check its work: go
// build, go vet and go test with the host's Go toolchain, and the built program itself. Each scenario has a real cause,
// and the demo never forges the resulting error message. The simulated model resets real connections, and an agent
// really exceeds the memory limit of its container. The engine or a signal kills or freezes workers. A comment answers
// a question, and a rate limit is a real 429 response. Successful work becomes a pull request, and the pull request's
// check reads the pushed branch (lint.go). The demo's human merges one pull request.
//
// # Invariants
//
//   - The final report comes from the original sources: labels, comments and branches on the stand-in, its log of
//     requests, the journal, the engine's events. Only the progress lines and the live view rely on the director.
//   - Containers, network, image, processes and directories have the run's fleet name. They are removed when the run
//     ends, even after an error. Only Go's build cache stays, to speed up the next run. A demo also removes the
//     leftovers of killed demos.
//
// The package imports the sources of its report (the journal, messages, the director's state, the runtimes), and the
// stand-in. Only cmd/demo imports it, so the director does not link the stand-in.
//
// # Clock
//
// Wall time bounds the whole run (runLimit).
//
// # Failure policy
//
// A missing program is an error that states the next step. If an outcome differs from the promise, or is not reached in
// time, Run returns false without an error.
package demo
