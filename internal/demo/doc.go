// Package demo, run by cmd/demo, shows the director at work on one machine. It has real workers, a real repository, a
// stand-in for GitHub, and thirteen failures with known outcomes.
//
//	this process ──▶ githubtest (issues, git, pages) ◀──┐
//	      │                                             │ HTTP
//	      ├──▶ director (a separate process, to be killed) ──▶ containers, or processes: worker + agent/
//	      │                                                          │ HTTP, resets
//	      └──▶ model (a stand-in for a provider) ◀───────────────────┘
//
// A small program (agent/) is the coding agent. On one issue it is a real loop of model and tools, over a stand-in for
// a provider that sometimes refuses (provider.go). On the other issues it is a script. Real programs check its work: go
// build, go vet and go test with the host's Go toolchain, and a run of the built program. Each scenario has a real
// cause, and the demo never forges the resulting error message. The model's kernel resets connections, and memory ends
// at the container's limit. The engine or a signal kills or freezes workers. A question is answered by a comment, and a
// rate limit is a real 429 response. Successful work becomes a pull request, and its check reads the pushed branch
// (lint.go). The demo's human merges one pull request.
//
// # Invariants
//
//   - The final report comes from the original sources: labels, comments and branches on the stand-in, its log of
//     requests, the journal, the engine's events. Only the lines of progress and the live view rely on the director.
//   - Everything bears a fleet name made for the run and is removed when the run ends, however it ends: containers,
//     network, image, processes and directories. Only Go's build cache stays, to make the next run quick. A demo also
//     removes the remains of killed demos.
//
// It imports the packages that it reads its report from (the journal, messages, the director's state, the runtimes),
// and the stand-in. Only cmd/demo imports it, so the director does not link the stand-in.
//
// # Clock
//
// Wall time bounds the whole run (runLimit).
//
// # Failure policy
//
// A missing program is an error with the next step. An outcome that differs from the promise, or that is not reached in
// time, is not an error: Run reports false.
package demo
