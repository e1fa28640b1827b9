// Package agent knows the agent CLIs: how each is started without a person at it, and what the stream that it
// prints means.
//
//	[[stage]] agent = "claude-code" ──Expand──▶ wire.StagePlan ──Command──▶ argument vector, environment
//	                                                                        (with Prompt, from the attempt file)
//
//	in the worker, live:   bytes ──Reader.Write──▶ Progress, UsageReport, RateLimit, Failure, Denial, Result ──▶ Outcome
//	in the classifier:     the tail of a report ──ReadTail──▶ its lines without events, and an Outcome
//
// A profile is a row of agents.toml: a new CLI that prints a known format is one row there, or in a user's own
// file. A new format is one row of the table in formats.go. Where an error's message, status and headers stand
// is in failure.go, for all formats and for texts of which the format is not known.
//
// Invariants: a Reader accepts any bytes, in any pieces, in bounded memory, and the same bytes give the same
// events however they were cut. What is not understood is passed over; it is never an error. Nothing that the
// prompt quotes can pass for the frame around it: every quoted line begins with "> ".
//
// Clock: none. Failure policy: Parse reports all faults of a file at once, each with its key. It is pure and imports
// budget, bus/wire, recovery/plaintext, redact and tomlfile.
package agent
