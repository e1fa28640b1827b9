// Package loop is a small coding agent. It asks a model, carries out the model's tool calls, and returns the results,
// until the model is done. It speaks Anthropic's messages, as streams.
//
// prompt ──▶ model ──tool calls──▶ read_file, write_file, edit_file, run_command ──results──▶ model ──▶ … ──▶ its final
// text
//
// This agent's steps are all known, so the demo uses it, and docs/specs/agents-matrix.md measures it as the reference.
// It reports its actions as lines of the format "retake" (docs/specs/agents.md).
//
// Invariants: its tools for files stay below the working directory. Every failed request is either retried, which a
// line reports, or ends the run with its status and the provider's text.
//
// Clock: wall time, for waits. Failure policy: up to Tries times, the agent retries after limits, overload, server
// errors and broken connections. It waits as long as the provider asks, unless that exceeds LongestWait. If a prompt is
// too long, the agent removes old results of tools from it.
package loop
