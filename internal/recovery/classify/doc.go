// Package classify turns evidence into a finding.
//
// The steps in steps.go run in the following order, and the first with an answer decides: the runtime's knowledge, an
// agent's question to a person, structured evidence (memory, the agent's error event, HTTP status, a wrapper's exit
// code, a worker's deadline), text by distance from the root cause (on exit 127, a missing program precedes service
// errors), exit codes, lines that only announce retries or give advice, general words, the worker's assertion, and
// finally guesses, which do not apply on exit 0. Text quoted in an agent's events is ignored (package agent). Every
// rule is a row of rules.toml, or of providers.toml for errors of model providers. Rows have examples, which are
// checked at startup. Rows of providers.toml are first matched against the names in an agent's error event. If a user's
// command fails without more specific evidence, the finding is a failed check. Explain lists the other matching rules,
// and why they lost.
//
// Failure policy: any bytes are valid evidence, and text without a matching rule is classified as recovery.Unknown.
// Imports: the standard library, packages agent, gitwords, recovery, loglines, plaintext, retryafter, signature and
// tomlfile.
package classify
