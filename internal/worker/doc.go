// Package worker is the program that is PID 1 of an attempt's container: it runs the attempt's stages and says how they
// went. It needs nothing of the image, not even a shell.
//
//	plan read ──▶ dial, hello ──welcome──▶ CODE ──▶ VALIDATE ──▶ … ──ok──▶ worker_result ──ack──▶ exit 0
//	     │              │                   ▲            │
//	     │              └─refused─▶ exit    └─fix round──┤
//	     └─bad─▶ exit                                    └─failed─▶ worker_error ──ack──▶ exit 1
//
// A stop.v1, the watchdog or SIGTERM ends it from every state; see ExitCode and Exits for how.
//
// Invariants:
//   - No stage starts, and nothing is written to the workspace, before the hello of this very attempt was welcomed.
//   - At most one final report is made. It is written down before it is sent, and the worker outlives its
//     acknowledgement unless it is told to stop or its watchdog ends.
//   - Nothing of a stage survives it: the leader's process group, then every process that it detached.
//   - One goroutine (reaper) does all waiting for children. Nothing else in this process may start any.
//   - What is sent, logged or kept of a stage's output was masked first, line by line, so that no cut can lay open half
//     of a secret.
//
// Stopping: fenced, withdrawn and replaced are obeyed in silence, as an attempt that is over has no say. shutdown and
// watchdog end the stage and report what was going on, for as long as the stop's grace (at least 1 s). SIGTERM comes
// from whoever stops the container and has decided already: the stage gets half of the plan's grace, nothing is
// reported.
//
// Questions: an agent that cannot decide writes .retake/question.md and ends; whatever its exit code, that is reported as
// needs_human. Exit codes alone ask nothing: agents use them for too many things.
//
// Pause: pause.v1 shuts a gate before the next stage (a fix round's, too). A stage that runs is never interrupted: an
// agent's connection would break. While a stage waits at the gate heartbeats say "paused" and the watchdog stands still.
// The end of an attempt waits for nothing.
//
// Behind: sync_required.v1 is written to .retake/sync_required.json for the agent, and nothing else happens: merging is the
// director's, before the next attempt.
//
// Leases on models: programs of a stage ask at a unix socket (door.go), or with this program's budget command. The worker
// asks the director, and rules by itself, by the same limits, when it gets no answer within a second. What a stage did not
// release is released for it.
//
// Agents: a stage with a profile (package agent) gets its prompt, model and files here, starts under a lease of the worker's
// own, and is listened to while it runs (listening.go): steps, usage, word of limits. Exit code 0 counts for what the stream
// makes of it; whether files changed is told by names, sizes and times (agent.go). Nothing that is heard stops an agent: the
// stage's timeout does.
//
// Memory: a stage failed for want of memory if the kernel counted a kill in this control group while it ran, and it died of
// SIGKILL or says 137, or it was VALIDATE (whose compilers die in its place). Without the kernel's count nothing is claimed.
//
// Output: what the stages print goes on to the container's stdout and stderr, masked. The worker's own lines are few, go
// to stderr, begin with "retake-worker: " at the start of a line, and are one JSON object each, with the keys that the
// director's log has.
//
// Spool: reports lie in .retake/spool/<attempt_id>.<n>.json (mode 0600) until they are acknowledged. What is sent is the
// copy in memory; files of earlier attempts are named in the log and left alone, as nobody may speak for a dead attempt.
//
// Clock assumption: durations only, on the monotonic clock. Wall time appears in messages, never in a decision.
//
// Failure policy: trouble with the bus is waited out with jittered backoff, for ever. Trouble with the workspace's files
// is logged and does not silence a report. A panic in here becomes a worker_error like any other failure.
//
// Linux only, as containers are.
package worker
