// Package demo, run by cmd/demo, shows the director at work on one machine: real workers, a real repository, a
// stand-in for GitHub, and thirteen failures whose outcomes are known beforehand.
//
//	this process ──▶ githubtest (issues, git, pages) ◀──┐
//	      │                                             │ HTTP
//	      ├──▶ director (a process of its own, so that it can be killed) ──▶ containers, or processes: worker + agent/
//	      │                                                                        │ HTTP, resets
//	      └──▶ model (a stand-in for a provider) ◀─────────────────────────────────┘
//
// A small program (agent/) is the coding agent: on one issue a real loop of model and tools, over a stand-in
// for a provider that refuses now and then (provider.go), on the others a script; what judges its work is real:
// go build, go vet and go test with the host's Go toolchain, and a run of the program that was built. Each
// scenario has a real cause: nobody sends the message that it is about. Connections are reset by the model's
// kernel, memory ends at the container's limit, workers are killed and frozen through the engine or by signals,
// an issue is answered by a comment, and a rate limit is a 429. What succeeds becomes a pull request, whose
// check reads what was really pushed (lint.go); one is merged by the demo's human.
//
// # Invariants
//
//   - What is reported at the end comes from where it is true: labels, comments and branches on the stand-in, its log of
//     requests, the journal, the engine's events. Nothing is taken from the director's own words but the lines of
//     progress and the live view.
//   - Everything carries a fleet name made for the run, and is removed at its end, however it ends: containers, network,
//     image, processes, folders. Only Go's build cache stays, as Go's own does, so that the next run is quick. What a demo
//     that was killed has left, the next one removes.
//
// It imports what it looks at (the journal, messages, the director's state, the runtimes) and the stand-in;
// nothing imports it but cmd/demo, so that the director links neither.
//
// # Clock
//
// Wall time for people; the run as a whole is bounded (runLimit).
//
// # Failure policy
//
// What is missing on this machine is an error with the next step. An outcome that differs from what was
// promised, or is not reached in time, is no error: Run reports false.
package demo
