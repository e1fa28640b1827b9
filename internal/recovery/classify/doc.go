// Package classify turns evidence into a finding.
//
// The first step with an answer decides (steps.go): the runtime's knowledge, an agent's question to a person,
// structured evidence (memory, the agent's error event, HTTP status, a wrapper's exit code, a worker's deadline), text
// by distance from the root cause (at exit 127, a missing program precedes messages of services), exit codes, lines
// that only announce retries or give advice, general words, the worker's assertion, and finally guesses, which do not
// apply at exit 0. Quotes in an agent's events are ignored (package agent). Every rule is a row of rules.toml, or of
// providers.toml for errors of model providers. Rows have examples, which are checked at startup. Rows of
// providers.toml match the names in an agent's error event first. A user's command that fails without specific evidence
// is a failed check. Explain lists the other matching rules, and why they lost.
//
// Failure policy: any bytes are valid evidence, and text without a matching rule is recovery.Unknown. Imports: the
// standard library, packages agent, gitwords, recovery, loglines, plaintext, retryafter, signature and tomlfile.
package classify
