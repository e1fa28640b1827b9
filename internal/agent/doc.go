// Package agent knows the agent CLIs: how each is started without a person at it, and what the stream that it prints means.
//
//	[[stage]] agent = "claude-code" ──Expand──▶ wire.StagePlan ──Prepare──▶ argument vector, environment, files
//	                                                                        │ (prompt from the attempt file)
//	what the CLI prints ──Reader.Write──▶ Progress, Used, RateLimited, Failed, Denied, Final ──Outcome.Add──▶ how it went
//
// A profile is a row of agents.toml: a new CLI that speaks a known format is one row there, or in a user's own file. A new
// format is one row of the table in formats.go.
//
// Invariants: a Reader takes any bytes, in any pieces, in bounded memory, and the same bytes give the same events however
// they were cut. What is not understood is passed over; it is never an error. Nothing that the prompt quotes can pass for
// the frame around it: every quoted line begins with "> ".
//
// Clock: none. Failure policy: Parse tells all faults of a file at once, each with the key it is about.
package agent
