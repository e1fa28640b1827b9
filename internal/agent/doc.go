// Package agent prepares unattended runs of agent CLIs, and interprets their output streams.
//
//	[[stage]] agent = "claude-code" ──Expand──▶ wire.StagePlan ──Command──▶ argument vector, environment
//	                                                                        (with Prompt, from the attempt file)
//
//	in the worker, live  bytes ──Reader.Write──▶ Progress, UsageReport, RateLimit, Failure, Denial, Result ──▶ Outcome
//	in the classifier    the tail of a report ──ReadTail──▶ its lines without events, and an Outcome
//
// A profile is a row of agents.toml. To add a CLI that prints a known format, add a row there or to a user's file. To
// add a format, add a row to the table in formats.go. failure.go finds an error's message, status and headers, both in
// the known formats and in unknown text.
//
// Invariants: a Reader accepts any bytes in pieces of any size and uses bounded memory. The same bytes give the same
// events, however they are split. A Reader skips unknown input and never fails. Text quoted in a prompt cannot be
// mistaken for the frame around it, because every quoted line begins with "> ".
//
// The package is pure: it has no I/O and no clock. It imports budget, bus/wire, recovery/plaintext, redact, tomlfile
// and worktree. Parse reports all faults of a file at once, each with its key.
package agent
