// Package loop is a small coding agent. It asks a model, carries out the model's tool calls, and returns the results,
// until the model is done. It speaks Anthropic's messages, as streams.
//
// prompt ──▶ model ──tool calls──▶ read_file, write_file, edit_file, run_command ──results──▶ model ──▶ … ──▶ its
// last words
//
// Every step of this agent is known, so the demo shows it at work, and docs/specs/agents-matrix.md measures it as the
// reference. It reports its actions as lines of the format "retake" (docs/specs/agents.md).
//
// Invariants: files are read and written below the working directory only. Every failed request is either retried
// with a line about it, or ends the run with its status and the provider's own text.
//
// Clock: wall time, for waits. Failure policy: limits, overload, server errors and broken connections are retried, up
// to Tries times. The provider's wait applies, unless it exceeds LongestWait. A prompt that is too long is shortened
// once for each time that it grew.
package loop
