// Package worker implements the program that runs as PID 1 of an attempt's container. It runs the attempt's stages and
// reports their outcome. It works in an empty image.
//
//	plan read ──▶ dial, hello ──welcome──▶ CODE ──▶ VALIDATE ──▶ … ──ok──▶ worker_result ──ack──▶ exit 0
//	     │              │                   ▲            │
//	     │              └─refused─▶ exit    └─fix round──┤
//	     └─bad─▶ exit                                    └─failed─▶ worker_error ──ack──▶ exit 1
//
// With validate_first, the first round skips CODE and validates existing work. If VALIDATE rejects the work, CODE gets
// the reason. If the plan does not contain VALIDATE, the attempt succeeds at once.
//
// With validate_only, there is no agent. VALIDATE judges a copy of the work, and programs cannot get leases. If such an
// attempt rejected the work, the next attempt's plan has the reason in rejected, and its first CODE gets that reason.
//
// A stop.v1, the watchdog or SIGTERM ends the worker in every state. ExitCode and Exits list the results.
//
// Invariants:
//   - Until this attempt's hello has been welcomed, the worker does not start stages or write to the workspace.
//   - There is at most one final report. It is written to the spool before it is sent. The worker waits for its
//     acknowledgement unless it is stopped or its watchdog expires.
//   - No process of a stage survives the stage: first its process group is ended, then every detached process.
//   - One goroutine (reaper) waits for all children. No other code in this process may start children.
//   - A stage's output is redacted line by line before it is sent, logged or kept, so that truncation cannot expose
//     half a secret.
//
// Plan: the plan arrives in full on standard input. The worker rejects a truncated plan. The plan contains the bus
// credential and the key that signs the reports. Only PID 1 has these secrets, and other processes cannot read its
// memory (Harden). A stage's standard input is /dev/null, and its environment and files contain none of the plan's
// secrets.
//
// Stopping: fenced, withdrawn and replaced end the attempt without a report, because the director has already ended it.
// shutdown and watchdog end the stage and report it, within the stop's grace (at least 1 s). SIGTERM means that the
// container is being stopped. The stage then gets half of the plan's grace, and there is no report.
//
// Questions: an agent that cannot decide writes .retake/question.md and exits. The worker reports needs_human,
// regardless of the exit code. An exit code alone is not a question, because agents use exit codes for too many
// purposes.
//
// Pause: pause.v1 holds the worker before its next stage, including stages of a fix round. It does not interrupt a
// running stage, because that would break an agent's connection. During a pause, heartbeats have the step "paused" and
// the watchdog is suspended. A pause does not delay the final report.
//
// Base branch: sync_required.v1 is written to .retake/sync_required.json for the agent. The director merges before the
// next attempt.
//
// Leases on models: a stage's programs request them over a Unix socket (leasesocket.go) or with this program's budget
// command. The worker asks the director. If the director does not answer within a second, the worker applies the same
// limits locally (leases.go). When the stage ends, the worker closes the socket and releases the stage's remaining
// leases.
//
// Agents: a stage with a profile (package agent) gets its prompt, model and files here, starts under the worker's
// lease, and is monitored for steps, usage and rate limits (agentmonitor.go). The stream decides whether exit code 0 is
// a success. Names, modes, sizes and times of files show whether the work changed (agent.go). Package worktree defines
// which files are work. The worker stops an agent that exceeds the stage's timeout, or that has reported its result but
// does not exit (linger.go).
//
// Logs: if a stage failed or did no work, the report quotes the tail of the newest log file written by the stage,
// before the tail of stderr (agentlog.go).
//
// Memory: a stage failed for lack of memory if the kernel counted a kill in this control group during the stage, and
// the stage died of SIGKILL, returned 137, or was VALIDATE. In VALIDATE, the kernel kills a compiler or test instead of
// the stage's own program.
//
// Output: the worker passes the redacted output of the stages to the container's stdout and stderr. Its own few lines
// go to stderr. Each one starts with "retake-worker: ", followed by a JSON object with the same keys as the director's
// log. If the plan requires it, a signed line on both streams marks the beginning of each stage (wire.StageMark).
//
// Spool: reports stay in .retake/spool/<attempt_id>.<n>.json (mode 0600), even acknowledged ones. The worker sends the
// copy in memory. It ignores files of earlier attempts, which must not report. The director reads the spool if the
// container has ended and the report is missing from the bus.
//
// Clock assumption: only durations on the monotonic clock matter. Wall time appears in messages but not in decisions.
//
// Failure policy: the worker retries a lost bus connection forever, with jittered backoff. Errors with the workspace's
// files are logged and do not prevent a report. A panic in the worker becomes a worker_error like any other failure.
//
// Imports: the package does not import the state machine, the embedded server, or the container, GitHub and workspace
// adapters. cmd/worker imports it.
//
// It runs on Linux only, as containers do.
package worker
