// Package loop is a small coding agent: it asks a model, does what the model's tool calls say, tells it what
// came of that, and so on until the model has no more to do. It speaks Anthropic's messages, as streams.
//
//	prompt ──▶ model ──tool calls──▶ read_file, write_file, edit_file, run_command ──results──▶ model ──▶ … ──▶ its last words
//
// It exists to have an agent whose every step is known: the demo shows it at work, and
// docs/specs/agents-matrix.md measures it as the reference. It tells what it does as lines of the format
// "retake" (docs/specs/agents.md).
//
// Invariants: files are read and written below the working directory only. Every request that failed is either
// tried again, and said so, or ends the run with its status and the provider's own words.
//
// Clock: wall time, for waits. Failure policy: limits, overload, faults of the server and broken connections
// are tried again, up to Tries times and as late as the provider says, unless that is later than LongestWait. A
// prompt that is too long is shortened once for each time that it grew.
package loop
