// Package classify turns evidence into a finding.
//
// The first step that has an answer decides (steps.go): what the runtime knows, what the agent asks a human,
// structured evidence (memory, the agent's own error event, HTTP status, a wrapper's exit code, a worker's
// deadline), text by how near a line stands to the root cause (before what services say: exit 127 with a
// missing program), exit codes, lines that only announce retries or advise, general words, the worker's
// assertion, and last guesses, which do not count at exit 0. What an agent's events only quote is not read
// (package agent). Every rule is a row of rules.toml or, for what providers of models answer, of
// providers.toml, with its examples, checked at start. An agent's error event is looked up there by its names
// first. A user's command that fails without anything specific is a failed check. Explain lists what else
// matched, and why it lost.
//
// Failure policy: any bytes are acceptable evidence; what no rule knows is recovery.Unknown.
// Imports: the standard library, packages agent, recovery, loglines, plaintext, retryafter, signature and tomlfile.
package classify
