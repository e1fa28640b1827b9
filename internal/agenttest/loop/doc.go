// Package loop is a small coding agent. It asks a model, carries out the model's tool calls, and returns the results,
// until the model is done. It uses Anthropic's Messages API with streaming.
//
// prompt ──▶ model ──tool calls──▶ read_file, write_file, edit_file, run_command ──results──▶ model ──▶ … ──▶ its final
// text
//
// We know every step of this agent, so the demo uses it, and docs/specs/agents-matrix.md measures it as the reference.
// It reports its actions in the line format "retake" (docs/specs/agents.md).
//
// Invariants: its file tools stay below the working directory. A failed request is either retried and reported as such,
// or ends the run with its status and the provider's text.
//
// Clock: wall time, for waits. Failure policy: after limits, overload, server errors and broken connections, the agent
// tries up to Tries times. It waits as long as the provider asks, unless that exceeds LongestWait. If a prompt is too
// long, the agent removes old tool results.
package loop
