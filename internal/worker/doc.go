// Package worker is the program that is PID 1 of an attempt's container: it runs the attempt's stages and
// reports how they went. It needs nothing of the image, not even a shell.
//
//	plan read ──▶ dial, hello ──welcome──▶ CODE ──▶ VALIDATE ──▶ … ──ok──▶ worker_result ──ack──▶ exit 0
//	     │              │                   ▲            │
//	     │              └─refused─▶ exit    └─fix round──┤
//	     └─bad─▶ exit                                    └─failed─▶ worker_error ──ack──▶ exit 1
//
// With validate_first the first round has no CODE: work that is there already is validated as it stands, and
// CODE begins with the reason if it is refused. A plan without VALIDATE ends well at once then.
//
// With validate_only there is no agent: VALIDATE judges a copy of the work, and no program gets leases. With
// rejected the first CODE is told why such an attempt has refused the work.
//
// A stop.v1, the watchdog or SIGTERM ends it in every state; ExitCode and Exits list how.
//
// Invariants:
//   - No stage starts, and nothing is written to the workspace, before the hello of this very attempt was welcomed.
//   - At most one final report is made. It is written to the spool before it is sent, and the worker outlives its
//     acknowledgement unless it is stopped or its watchdog ends.
//   - Nothing of a stage survives it: the leader's process group, then every process that it detached.
//   - One goroutine (reaper) does all waiting for children. Nothing else in this process may start any.
//   - What is sent, logged or kept of a stage's output is redacted first, line by line, so that no cut exposes half of a
//     secret.
//
// Plan: it comes through the standard input, once and whole; one that ends early is a bad plan. It has the
// credential for the bus and the key that signs the reports, and PID 1, whose memory nobody else reads
// (Harden), is the only process that ever has them: a stage's standard input is /dev/null, and neither its
// environment nor any file holds a secret of the plan.
//
// Stopping: fenced, withdrawn and replaced are obeyed in silence: an attempt that is over reports nothing.
// shutdown and watchdog end the stage and report what was going on, for as long as the stop's grace (at least 1
// s). SIGTERM comes from whoever stops the container and has decided already: the stage gets half of the plan's
// grace, nothing is reported.
//
// Questions: an agent that cannot decide writes .retake/question.md and ends; whatever its exit code, that is
// reported as needs_human. An exit code alone asks nothing: agents use them for too many things.
//
// Pause: pause.v1 holds the worker before its next stage (also of a fix round). A running stage is never
// interrupted: an agent's connection would break. Meanwhile heartbeats have the step "paused" and the watchdog
// stands still. A final report does not wait.
//
// Base branch: sync_required.v1 is written to .retake/sync_required.json for the agent, and nothing else
// happens: the director merges before the next attempt.
//
// Leases on models: programs of a stage ask at a unix socket (leasesocket.go) or with this program's budget
// command. The worker asks the director and, without an answer within a second, applies the same limits by
// itself (leases.go). The socket ends with the stage; what the stage did not release is released for it.
//
// Agents: a stage with a profile (package agent) gets its prompt, model and files here, starts under a lease of
// the worker's own, and is monitored while it runs (agentmonitor.go): steps, usage, rate limits. What exit code
// 0 means depends on the stream; whether work changed is judged by names, sizes and times of files (agent.go);
// what is work, package worktree says. Nothing in the stream stops an agent: the stage's timeout does.
//
// Logs: of a stage that failed, or that has done nothing, the newest log file that it wrote is read
// (agentlog.go). Its end stands in the report before that of stderr.
//
// Memory: a stage failed for want of memory if the kernel counted a kill in this control group while it ran,
// and the stage died of SIGKILL or returned 137, or was VALIDATE (whose compilers die in its place). Without
// the kernel's count nothing is asserted.
//
// Output: what the stages print goes on to the container's stdout and stderr, redacted. The worker's own lines
// are few. They go to stderr, begin with "retake-worker: " at the start of a line, and are one JSON object
// each, with the keys of the director's log. If the plan asks for it, a signed line on both streams says which
// stage begins (wire.StageMark).
//
// Spool: reports stay in .retake/spool/<attempt_id>.<n>.json (mode 0600), also those that were acknowledged.
// What is sent is the copy in memory; files of earlier attempts are left alone, because an attempt that is over
// reports nothing. The director reads them when the container has ended and the bus has no report.
//
// Clock assumption: durations only, on the monotonic clock. Wall time appears in messages, never in a decision.
//
// Failure policy: a lost bus is retried with jittered backoff, for ever. Errors of the workspace's files are
// logged and do not prevent a report. A panic in here becomes a worker_error like any other failure.
//
// Imports: packages bus, bus/wire, agent, budget, recovery, recovery/classify, procfs, redact, ring, safefile
// and worktree, but neither the state machine nor the embedded server, nor the container, GitHub and workspace
// adapters. cmd/worker imports it.
//
// Linux only, as containers are.
package worker
