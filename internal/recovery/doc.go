// Package recovery reads failures: evidence → reason → verdict.
//
// A Classifier turns Evidence into a Finding (what it means), a Policy turns the Finding and the Tally of one claim
// into a Verdict (what to do, after how long, and why). Both are pure: no I/O, clock, goroutine or randomness; jitter
// is a hash of the caller's seed. The reasons, the rules and the policy are tables: a new one is one row.
//
// The classifier asks in this order (steps.go): what the runtime knows, what the agent asks a human, structured facts
// (memory, the agent's own error event, HTTP status, a wrapper's exit code, a worker's deadline), text by how near a line
// stands to the root cause (before what services say: exit 127 with a missing program), exit codes, lines that only
// announce retries or advise, general words, the worker's claim, and last guesses, which do not count at exit 0. What an
// agent's events only quote is no text (events_lines.go). Every rule is a row of rules.toml with its examples, checked at
// start. Explain tells what else matched, and why it lost.
//
// Clock: none. Evidence.At is the only now; without it dates in the evidence are not read.
// Invariant: Decide never hands out a retry that the tally has no room for, nor a wait beyond its cap, nor
// one shorter than a stated wait that the row honours.
// Failure policy: any bytes are acceptable evidence; what no rule knows is Unknown, which is retried once.
package recovery
